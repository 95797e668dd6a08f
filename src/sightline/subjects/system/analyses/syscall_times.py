"""How long each system call took, and how often it failed."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import (
    LENGTHS,
    describe_thread,
    find_longest,
    name_threads,
    sum_lengths,
)
from sightline.timeline.sleeps import list_sleeps
from sightline.timeline.system_calls import list_system_calls, name_calls

ANALYSIS = Analysis(
    "syscall_times",
    "How long did each system call take, how much of it asleep, and how often did it fail?",
    (
        RANK,
        text("call", "system call, or call of the C library", required=True),
        *LENGTHS,
        duration("asleep_ns", "the thread slept in it; null without a trace of the scheduler"),
        number("errors", "calls that returned a negative number"),
        number("threads", "threads that made some"),
        text("most_by", "the thread that spent most time in it"),
    ),
    needs=("host_ops",),
    notes=("Threads that wait at the same time are each counted.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per call, the most time first."""
    calls = list_system_calls(run).with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    calls = name_threads(calls.rename({"name": "call"}), run, "tid", "thread_name")
    calls = calls.with_columns(most_by=describe_thread("tid", "thread_name"))
    by = ["rank", "call"]
    found = calls.group_by(by).agg(
        *sum_lengths(),
        errors=(pl.col("return_value") < 0).sum().cast(pl.Int64),
        threads=pl.struct("pid", "tid").n_unique().cast(pl.Int64),
    )
    found = found.join(find_longest(calls, by, "most_by"), on=by, how="left")
    asleep = pl.lit(None, pl.Int64)
    if run.rows("sched_events"):
        slept = name_calls(run, list_sleeps(run)).with_columns(
            length=pl.col("end_ns") - pl.col("start_ns")
        )
        slept = slept.group_by(by).agg(asleep_ns=pl.col("length").sum())
        found = found.join(slept, on=by, how="left")
        # A sleep may be cut by the recording's end, which the call's own end is not.
        asleep = pl.min_horizontal(pl.col("asleep_ns").fill_null(0), "total_ns")
    found = found.with_columns(asleep_ns=asleep)
    order = found.sort("call").sort("total_ns", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)
