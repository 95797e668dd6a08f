"""Simulated programs of tests/synth, written and opened once for all tests of a session."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sightline
from sightline.core.model.run import Run
from synth import Run as Program
from synth import RunTruth, kineto, simulate, truth_of
from synth.dialects import DIALECTS
from synth.scenarios import SCENARIOS

DIALECT_NAMES = tuple(DIALECTS)
WITH_DEVICE = tuple(name for name in SCENARIOS if name != "cpu_only")
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Simulated:
    """A simulated program, the truth about it, and what the tool read from its recording."""

    program: Program
    truth: RunTruth
    run: Run
    origin_ns: int  # run time + origin = the recording's time on the tool's clock
    dialect: str

    def device_id(self, device: int) -> int:
        """A device's number in the recording."""
        return kineto.device_id(self.dialect, device)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sightline-simulated-")


@cache
def files_of(scenario: str, seed: int, dialect: str) -> tuple[Path, ...]:
    """The recording's files, one per rank."""
    program = _program(scenario, seed, DIALECTS[dialect].whole_us)
    folder = Path(_folder().name) / f"{scenario}-{seed}-{dialect}"
    return tuple(kineto.write(program, folder, dialect))


@cache
def _program(scenario: str, seed: int, whole_us: bool) -> Program:
    return simulate(scenario, seed=seed, grain_ns=1000 if whole_us else 1)


@cache
def _truth(scenario: str, seed: int, whole_us: bool) -> RunTruth:
    return truth_of(_program(scenario, seed, whole_us))


@cache
def simulated(scenario: str, seed: int = 0, dialect: str = "2025") -> Simulated:
    """A scenario's program, its truth, and the run that the tool made of its recording."""
    form = DIALECTS[dialect]
    program = _program(scenario, seed, form.whole_us)
    run = sightline.open(*(str(path) for path in files_of(scenario, seed, dialect)))
    origin = kineto.origin_ns(dialect)
    if form.base_time:
        origin += kineto_base_ns()
    return Simulated(program, _truth(scenario, seed, form.whole_us), run, origin, dialect)


def kineto_base_ns() -> int:
    from synth.dialects import BASE_TIME_NS

    return BASE_TIME_NS
