"""What each CPU core did: threads, interrupts, idle."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import describe_thread, find_longest, name_threads
from sightline.timeline.sleeps import list_states

ANALYSIS = Analysis(
    "cpu_times",
    "What did each CPU core do?",
    (
        RANK,
        number("cpu", "CPU core", required=True),
        duration("busy_ns", "a thread ran on it"),
        pct("busy_pct", "share of the recording's time"),
        duration("interrupt_ns", "it handled interrupts; simultaneous ones count once"),
        number("interrupts", "interrupts that it handled"),
        number("threads", "threads that ran on it"),
        number("switches", "times that a thread was put on it"),
        text("most_by", "the thread that ran on it longest"),
    ),
    needs=("sched_events",),
    notes=("Interrupts count as time of the thread that they interrupt, too.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per CPU core, in order."""
    ran = list_states(run).filter(pl.col("state") == "running", pl.col("cpu").is_not_null())
    ran = name_threads(ran, run, "tid", "thread_name").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        most_by=describe_thread("tid", "thread_name"),
    )
    by = ["rank", "cpu"]
    whole = ran.group_by("rank").agg(whole=pl.col("end_ns").max() - pl.col("start_ns").min())
    found = ran.group_by(by).agg(
        threads=pl.col("tid").n_unique().cast(pl.Int64), switches=pl.len().cast(pl.Int64)
    )
    interrupts = run.table("interrupts")
    frames = (
        measure_cover(ran, by).rename({"covered_ns": "busy_ns"}),
        measure_cover(interrupts, by).rename({"covered_ns": "interrupt_ns"}),
        interrupts.group_by(by).agg(interrupts=pl.len().cast(pl.Int64)),
        find_longest(ran, by, "most_by"),
    )
    for frame in frames:
        found = found.join(frame, on=by, how="left")
    found = found.join(whole, on="rank").with_columns(
        pl.col("interrupt_ns", "interrupts").fill_null(0),
        busy_pct=pl.when(pl.col("whole") > 0).then(100 * pl.col("busy_ns") / pl.col("whole")),
    )
    return found.sort(by).select(column.name for column in ANALYSIS.columns)
