"""What the main thread slept for, by samples of the system call that it was in."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.step_usage import sum_sleeps

ANALYSIS = Analysis(
    "step_sleeps",
    "What did the main thread sleep for?",
    (
        RANK,
        text("waits_for", "what the system call waits for: a lock, a file, …", required=True),
        duration("slept_ns", "time that the samples stand for"),
        pct("sampled_pct", "% of the rank's sampled sleep"),
        number("samples", "samples"),
    ),
    needs=("counters",),
    notes=(
        "Samples from outside, ten a second, from the end of the first step to that of the "
        "last: `sightline run` takes them of Python programs that mark steps.",
        "A wait for other threads of an operator is a lock here, too.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and cause, the largest first."""
    share = 100 * pl.col("slept_ns") / pl.col("slept_ns").sum().over("rank")
    return sum_sleeps(run).with_columns(sampled_pct=share).select(c.name for c in ANALYSIS.columns)
