"""What may have disturbed a trial, as sentences: neighbors, clocks, heat, drift, warm-up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import psutil

from sightline.core.units import format_pct, format_several

if TYPE_CHECKING:
    from sightline.experiment.rounds import Round

# Others take a quarter of a CPU or more for 5 % of a program's runs; and a GPU's clock that differs
# by 2 % makes what is bound by it 2 % slower (ours: about what differences are asked for).
_OTHERS_CPUS, _CLOCK_SHARE, _DRIFT_SHARE = 0.25, 0.02, 0.02
_LIMITED_PCT = 10.0


def list_disturbances(names: Sequence[str], rounds: Sequence[Round], warm: int) -> list[str]:
    """Each as one sentence, without what did not happen."""
    kept = rounds[warm:]
    return [
        *_explain_warmup(names, rounds, warm),
        *_explain_neighbors(kept),
        *_explain_gpu_clocks(names, kept),
        *_explain_cpu_clocks(kept),
        *_explain_drift(kept),
    ]


def _explain_warmup(names: Sequence[str], rounds: Sequence[Round], warm: int) -> Iterator[str]:
    if not warm:
        return
    usual = [median(column) for column in zip(*(one.logs for one in rounds[warm:]), strict=True)]
    factors = [first - later for first, later in zip(rounds[0].logs, usual, strict=True)]
    worst = factors.index(max(factors))
    # What is not on a machine yet comes from the disk, and is compiled once.
    verb = "round warms up and is" if warm == 1 else "rounds warm up and are"
    yield (
        f"The first {verb if warm == 1 else f'{warm} {verb}'} left out: the first run of "
        f"{names[worst]} took {math.exp(factors[worst]):.1f} times as long as later ones."
    )


def _explain_neighbors(rounds: Sequence[Round]) -> Iterator[str]:
    found = _collect(rounds, lambda around: around.get("others_cpus"))
    disturbed = [value for value in found if value >= _OTHERS_CPUS]
    if disturbed:
        yield (
            f"Other programs took {fmean(disturbed):.1f} of {psutil.cpu_count() or 1} CPUs during "
            f"{_write_part(len(disturbed), len(found))}."
        )
    stolen = _collect(rounds, lambda around: around.get("stolen_cpus"))
    taken = [value for value in stolen if value >= _OTHERS_CPUS]
    if taken:
        yield (
            f"The hypervisor withheld {fmean(taken):.1f} CPUs during "
            f"{_write_part(len(taken), len(stolen))}."
        )


def _write_part(some: int, whole: int) -> str:
    if some == whole:
        return f"all {format_several(whole, 'run')}"
    return f"{some} of {format_several(whole, 'run')}"


def _explain_gpu_clocks(names: Sequence[str], rounds: Sequence[Round]) -> Iterator[str]:
    for number, gpu in enumerate(rounds[0].around[0].get("gpus", ())):

        def read(around: dict[str, Any], key: str, number: int = number) -> float | None:
            gpus = around["gpus"]
            value: float | None = gpus[number][key] if number < len(gpus) else None
            return value

        clocks = [
            [c for one in rounds if (c := read(one.around[v], "sm_mhz")) is not None]
            for v in range(len(names))
        ]
        busy = _collect(rounds, lambda around: read(around, "utilization_pct"))
        if not all(clocks) or not busy or not any(busy):
            continue  # a GPU that nobody used clocks down
        means = [fmean(column) for column in clocks]
        low, high = min(means), max(means)
        if low < (1 - _CLOCK_SHARE) * high:
            yield (
                f"GPU {number} ({gpu['name']}) ran at {low:,.0f} MHz under "
                f"{names[means.index(low)]} and at {high:,.0f} MHz under "
                f"{names[means.index(high)]}: part of the difference may be its clock."
            )
        limited = _collect(rounds, lambda around: read(around, "limited_pct"))
        if limited and fmean(limited) >= _LIMITED_PCT:
            yield (
                f"GPU {number} was held back by its power cap or its heat for "
                f"{format_pct(fmean(limited))} of the time."
            )


def _explain_cpu_clocks(rounds: Sequence[Round]) -> Iterator[str]:
    parts = _split_ends(rounds, lambda around: around.get("cpu_mhz"))
    if parts is not None and parts[1] < (1 - _CLOCK_SHARE) * parts[0]:
        heat = _split_ends(rounds, lambda around: around.get("cpu_celsius"))
        at = "" if heat is None else f", at {heat[0]:.0f} and {heat[1]:.0f} °C"
        yield f"The CPUs' clock fell from {parts[0]:,.0f} to {parts[1]:,.0f} MHz{at}."


def _explain_drift(rounds: Sequence[Round]) -> Iterator[str]:
    third = len(rounds) // 3
    if third < 2:
        return
    levels = [fmean(one.logs) for one in rounds]
    moved = fmean(levels[-third:]) - fmean(levels[:third])
    noise = median(abs(a - b) for a, b in itertools.pairwise(levels))
    if abs(moved) < max(_DRIFT_SHARE, 2 * noise):
        return
    word = "slower" if moved > 0 else "faster"
    yield (
        f"All variants became {format_pct(100 * math.expm1(abs(moved)))} {word} while they were "
        "tried; each round runs all of them, so this does not change their differences."
    )


def _collect(
    rounds: Sequence[Round], read: Callable[[dict[str, Any]], float | None]
) -> list[float]:
    return [value for one in rounds for a in one.around if (value := read(a)) is not None]


def _split_ends(
    rounds: Sequence[Round], read: Callable[[dict[str, Any]], float | None]
) -> tuple[float, float] | None:
    """The mean of the first and of the last third of the rounds; None where one has no value."""
    third = len(rounds) // 3
    ends = (_collect(rounds[:third], read), _collect(rounds[len(rounds) - third :], read))
    return (fmean(ends[0]), fmean(ends[1])) if third and all(ends) else None
