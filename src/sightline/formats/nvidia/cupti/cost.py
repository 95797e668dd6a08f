"""What recording cost and how much it left out, from the stretches that the library notes.

The library measures what its own callbacks and threads take. What CUPTI itself takes inside the
program nobody can read: it is estimated where windows of recording alternate with pauses, from how
fast the program launched work in each window and in the pause beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.student import find_quantile
from sightline.core.model.declare import Quality
from sightline.core.units import format_ns, format_pct, format_several
from sightline.formats.nvidia.cupti.holes import NO_CALLS
from sightline.timeline.api_calls import CUPTI_LAUNCH_NS

_FEWEST = 4  # pairs: of fewer, the interval is wider than what it says
_MEASURE = "Measure it here:  sightline run --measure-cost -- PROGRAM"
_SURE = 0.975  # of a two-sided interval of 95 %
_WHOLE_GRAPHS = 2  # throttle.h


@dataclass(frozen=True)
class Perturbation:
    """By how much a program launches work more slowly while it is recorded, in %."""

    pct: float
    low_pct: float
    high_pct: float
    pairs: int


def estimate_perturbation(windows: pl.DataFrame) -> Perturbation | None:
    """From windows and pauses, in pairs that follow each other; None where there are too few.

    The logarithm of the ratio of both rates is averaged over pairs, with Student's interval: what
    changes slowly in a program is in both of a pair, and which of them comes first is random.
    """
    ratios = []
    rows = windows.filter(pl.col("is_measured") == 1).to_dicts()
    at = 0
    while at + 1 < len(rows):
        first, second = rows[at], rows[at + 1]
        if first["is_on"] == second["is_on"] or first["level"] != second["level"]:
            at += 1
            continue
        on, off = (first, second) if first["is_on"] else (second, first)
        rates = [r["launches"] / max(r["end"] - r["start"], 1) for r in (on, off)]
        if all(rate > 0 for rate in rates):
            ratios.append(math.log(rates[0] / rates[1]))
        at += 2
    count = len(ratios)
    if count < _FEWEST:
        return None
    mean = sum(ratios) / count
    variance = sum((r - mean) ** 2 for r in ratios) / (count - 1)
    half = find_quantile(count - 1, _SURE) * math.sqrt(variance / count)
    slower = [100 * (1 - math.exp(mean + shift)) for shift in (0.0, half, -half)]
    return Perturbation(slower[0], slower[1], slower[2], count)


def list_costs(
    windows: pl.DataFrame, *, is_throttled: bool, in_holes: int = 0, launches: int = 0
) -> list[Quality]:
    """What was left out to keep within the budget, and what recording cost.

    in_holes: operations that were launched while calls were left out; launches: how many launches
    were recorded.
    """
    known = windows.filter(pl.col("end") > pl.col("start"))
    if known.is_empty():
        return []
    length = pl.col("end") - pl.col("start")
    whole, on, calls, nodes, own, cpu, records = known.select(
        length.sum(),
        on=length.filter(pl.col("is_on") == 1).sum(),
        calls=length.filter((pl.col("is_on") == 1) & (pl.col("level") < NO_CALLS)).sum(),
        nodes=length.filter((pl.col("is_on") == 1) & (pl.col("level") < _WHOLE_GRAPHS)).sum(),
        own=pl.col("own_ns").sum(),
        cpu=pl.col("cpu_ns").sum(),
        records=pl.col("records").sum(),
    ).row(0)
    found = []
    remedy = "Record all, whatever it costs:  sightline run --budget 100 -- PROGRAM"
    budget = ", to keep within the budget" if is_throttled else ""
    if on < whole:
        text = (
            f"the GPU was recorded in windows, {format_pct(100 * on / whole)} of the time{budget}: "
            "between them nothing is known, and the recording causes the idle time there"
        )
        found.append(Quality("recorded_in_windows", "warning", text, None, remedy))
    if is_throttled and calls < on:
        text = (
            f"API calls were recorded for {format_pct(100 * calls / whole)} of the time{budget}: "
            "what the host did for the rest of it is not known"
        )
        if in_holes:
            some = format_several(in_holes, "GPU operation")
            text += f", nor what launched {some} then"
        found.append(Quality("calls_left_out", "warning", text, None, remedy))
    if is_throttled and nodes < on:
        text = (
            f"kernels of CUDA graphs were recorded one by one for "
            f"{format_pct(100 * nodes / whole)} of the time{budget}; "
            "after that each graph's launch is one operation"
        )
        found.append(Quality("graphs_recorded_whole", "info", text, None, remedy))
    found.append(_tell_cost(own, cpu, records, whole, launches))
    slower = estimate_perturbation(windows)
    if slower is not None:
        text = (
            f"while it is recorded, the program launches work {slower.pct:.1f} % more slowly "
            f"(95 % interval {slower.low_pct:.1f} to {slower.high_pct:.1f} %, from {slower.pairs} "
            "pairs of windows and pauses)"
        )
        severity = "warning" if slower.low_pct > 1 else "info"
        found.append(Quality("perturbation", severity, text))
    return found


def _tell_cost(own: int, cpu: int, records: int, whole: int, launches: int) -> Quality:
    text = (
        f"recording took {format_pct(100 * (own + cpu) / whole)} of one core "
        f"({format_pct(100 * own / whole)} on the program's threads), for "
        f"{format_several(round(records * 1e9 / whole), 'record')}/s; CUPTI's own time inside the "
        "program is not included"
    )
    if not launches:
        return Quality("recording_cost", "info", text)
    inside = launches * CUPTI_LAUNCH_NS
    text += (
        f": on an H100 about {CUPTI_LAUNCH_NS / 1000:.1f} µs a launch, for "
        f"{format_several(launches, 'launch', 'launches')} {format_ns(inside)} "
        f"({format_pct(100 * inside / whole)} of the time); none where the GPU is always busy"
    )
    return Quality("recording_cost", "info", text, None, _MEASURE)
