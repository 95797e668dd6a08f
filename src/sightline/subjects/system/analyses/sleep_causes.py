"""What each thread slept for: the system call that it was in, and what woke it."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, text
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
from sightline.timeline.system_calls import name_calls
from sightline.timeline.thread_states import THREAD

ANALYSIS = Analysis(
    "sleep_causes",
    "What did each CPU thread sleep for, and who or what woke it?",
    (
        RANK,
        number("pid", "process id"),
        number("tid", "thread that slept"),
        text("thread_name", "its name"),
        text("call", "system call that it slept in"),
        text(
            "source",
            "what ended the sleep: thread, timer, disk, network, interrupt; unknown where no "
            "wake-up was recorded",
            required=True,
        ),
        *LENGTHS,
        text("woken_by", "thread or interrupt that ended most of it"),
    ),
    needs=("sched_events",),
    notes=(
        "Sleeps that last until the recording's end count up to there.",
        "A wake-up counts as an interrupt's where the recording has interrupts: irq, softirq or "
        "hrtimer. Else it counts as the interrupted thread's.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per thread, call and source, the longest first."""
    sleeps = name_calls(run, list_sleeps(run))
    by = [*THREAD, "call", "source"]
    named = name_threads(sleeps, run, "waker_tid", "waker_name").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        woken_by=pl.coalesce("source_name", describe_thread("waker_tid", "waker_name")),
    )
    longest = find_longest(named, by, "woken_by")
    found = named.group_by(by, maintain_order=True).agg(
        pl.col("pid").drop_nulls().last(), *sum_lengths()
    )
    found = found.join(longest, on=by, how="left", nulls_equal=True, maintain_order="left")
    found = name_threads(found, run, "tid", "thread_name")
    order = found.sort("tid", "call", "source").sort(
        "total_ns", descending=True, maintain_order=True
    )
    return order.select(column.name for column in ANALYSIS.columns)
