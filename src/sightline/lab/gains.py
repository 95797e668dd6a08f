"""Predicted and realised gains: what the first finding promised, and what the fix brought."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.algebra.student import find_quantile
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.session import Session
from sightline.timeline.host_parts import find_longest_window
from sightline.timeline.step_clock import list_marked_by_clock
from sightline.timeline.step_usage import measure_recording_cost


@dataclass(frozen=True)
class Prediction:
    """The first finding of a recording; its gain in % of the window, and what a step takes."""

    finding: Finding | None
    gain_pct: float | None
    step_ns: float


@dataclass(frozen=True)
class Estimate:
    """A mean, and the interval that holds it with 95 %; equal ends where it was measured once."""

    mean: float
    low: float
    high: float


def predict_gain(run: Session, steps: str = "undisturbed") -> Prediction:
    """What the report of a recording promises first."""
    first = next((f for f in run.findings() if not f.abstained and not f.states_limit), None)
    gain = None
    if first is not None and first.gain_ns is not None:
        gain = 100 * first.gain_ns / max(_measure_window(run), 1)
    return Prediction(first, gain, measure_step(run, steps))


def measure_step(run: Run, steps: str = "undisturbed") -> float:
    """How long a step takes, ns: the mean over ranks.

    `undisturbed`: the median of those without the recording of operators; `uneven`: their mean,
    where something meets some of them and not others; `all`: the mean of all but the first, for
    programs whose steps differ. Without marked steps, the longest window, or the sum of the
    profiled kernels where nothing else was recorded.
    """
    if steps != "all":
        cost = measure_recording_cost(run)
        column = "undisturbed_step_ns" if steps == "undisturbed" else "undisturbed_mean_ns"
        if cost.height:
            return float(cost.get_column(column).mean())  # type: ignore[arg-type]
    marked = list_marked_by_clock(run).with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    later = marked.group_by("rank").agg(pl.col("ns").slice(1).mean()).drop_nulls("ns")
    if later.height:
        return float(later.get_column("ns").mean())  # type: ignore[arg-type]
    return float(_measure_window(run))


def _measure_window(run: Run) -> int:
    # Without one there are kernels alone, one after the other, as a kernel profiler runs them.
    return find_longest_window(run) or sum_column(run.table("profiled_kernels"), "duration_ns")


def measure_realised(baseline_ns: float, improved_ns: float) -> float:
    """By how many per cent the improved side is shorter."""
    return 100 * (1 - improved_ns / baseline_ns)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % interval by Student's t (Student 1908)."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, mean, mean)
    spread = statistics.stdev(values) / math.sqrt(len(values))
    reach = find_quantile(len(values) - 1, 0.975) * spread
    return Estimate(mean, mean - reach, mean + reach)


def compare_gains(predicted: Sequence[float], realised: Sequence[float]) -> float | None:
    """By how many per cent of the realised gain the prediction is off; None without a gain."""
    true = statistics.fmean(realised) if realised else 0.0
    if not predicted or true <= 0:
        return None
    return 100 * (statistics.fmean(predicted) - true) / true
