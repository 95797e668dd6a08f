"""Histories of `sightline watch` whose truth is known, written as the watch writes them.

GPUs go through phases; the counter of joules is what their power makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sightline.record.monitor import seal
from sightline.record.monitor.history import HistoryWriter, Limits
from sightline.record.monitor.readings import GPU, HOST, Device, Entity, Event, Reading
from sightline.record.monitor.rounds import Round

SECOND = 1_000_000_000
EPOCH = 1_780_000_000 * SECOND
GIB = float(1 << 30)
Values = Mapping[str, float]


class Phase(NamedTuple):
    """So many seconds in which each GPU (by number) shows these values; -1 is the host's CPU."""

    seconds: int
    shown: Mapping[int, Values]


def train(power: float = 600.0, clock: float = 1800.0, **more: float) -> dict[str, float]:
    """A GPU that computes: its pipe is active in half of the cycles, whatever the clock."""
    busy = {"GPU utilization": 100.0, "SM active": 90.0, "tensor active": 50.0, "DRAM active": 40.0}
    usual = {"power": power, "SM clock": clock, "memory used": 60 * GIB, "clock event reasons": 0.0}
    return {**busy, **usual, **{name.replace("_", " "): value for name, value in more.items()}}


def rest(power: float = 75.0, held: float = 0.0) -> dict[str, float]:
    """A GPU on which nothing runs, with so many bytes of memory in use."""
    idle = {"GPU utilization": 0.0, "SM active": 0.0, "tensor active": 0.0, "DRAM active": 0.0}
    return {
        **idle,
        "power": power,
        "SM clock": 345.0,
        "memory used": held,
        "clock event reasons": 1,
    }


def write_history(
    folder: Path,
    phases: Sequence[Phase],
    *,
    period_s: int = 10,
    events: Sequence[Event] = (),
    name: str = "NVIDIA H200",
    without: Sequence[str] = (),
) -> Path:
    """A sealed history: a round every `period_s`, with the counter of joules that power makes.

    A round shows what was true in the time before it. `without` leaves metrics out.
    """

    def seal_here(place: Path, ended: Sequence[Path]) -> None:
        seal.main([str(place), *(path.name for path in ended)])

    writer = HistoryWriter(folder, Limits(thinning=()), float(period_s), seal=seal_here)
    numbers = sorted({n for phase in phases for n in phase.shown})
    writer.set_devices([Device(n, "nvidia", name, f"GPU-{n}") for n in numbers if n >= 0])
    joules = dict.fromkeys(numbers, 1000.0)
    at = EPOCH
    waiting = sorted(events)
    for phase in phases:
        for _ in range(phase.seconds // period_s):
            at += period_s * SECOND
            readings = []
            for number, values in phase.shown.items():
                joules[number] += values["power"] * period_s
                shown = {**values, "energy": joules[number]}
                entity = Entity(GPU, number) if number >= 0 else Entity(HOST, None, "package-0")
                kept = {k: float(v) for k, v in shown.items() if k not in without}
                readings.append(Reading(entity, at, kept))
            now = [event for event in waiting if event.time_ns <= at]
            waiting = waiting[len(now) :]
            writer.write(Round(at, at - EPOCH, readings, now))
    writer.close()
    return folder
