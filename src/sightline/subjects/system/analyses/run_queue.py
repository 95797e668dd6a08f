"""How many threads wanted to run at once, against the CPU cores that there are."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, flag, number, pct
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.sleeps import count_runnable

ANALYSIS = Analysis(
    "run_queue",
    "How many threads wanted to run at once?",
    (
        RANK,
        number("runnable", "threads that ran or waited for a CPU core at once", required=True),
        number("cpus", "CPU cores that any thread ran on"),
        flag("is_oversubscribed", "more threads than cores"),
        duration("total_ns", "how long there were so many"),
        pct("total_pct", "share of the recording's time"),
    ),
    needs=("sched_events",),
    notes=(
        "Cores that no recorded thread ran on are not known, and may have been free.",
        "The rows of a rank sum to its time from the first switch to the last.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per number of threads, the highest number first."""
    length = pl.col("end_ns") - pl.col("start_ns")
    found = count_runnable(run).group_by("rank", "runnable", "cpus").agg(total_ns=length.sum())
    found = found.filter(pl.col("total_ns") > 0).with_columns(
        is_oversubscribed=pl.col("runnable") > pl.col("cpus"),
        total_pct=100 * pl.col("total_ns") / pl.col("total_ns").sum().over("rank"),
    )
    order = found.sort("rank", "runnable", descending=[False, True])
    return order.select(column.name for column in ANALYSIS.columns)
