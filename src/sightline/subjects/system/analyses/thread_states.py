"""What each CPU thread did: it ran, waited for a CPU, or slept."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.thread_states import THREAD, list_thread_states

_STATES = ("running", "preempted", "woken", "blocked", "uninterruptible", "off_cpu")

ANALYSIS = Analysis(
    "thread_states",
    "How long did each CPU thread run, wait for a CPU, and sleep?",
    (
        RANK,
        number("pid", "process id"),
        number("tid", "thread id"),
        text("thread_name", "thread name"),
        duration("running_ns", "it ran"),
        duration("preempted_ns", "it wanted to run, but another thread had its CPU"),
        duration("woken_ns", "from a wake-up until it ran"),
        duration("blocked_ns", "it slept: for a lock, a timer, another thread, the GPU"),
        duration("uninterruptible_ns", "it slept and could not be interrupted: mostly for a disk"),
        duration("off_cpu_ns", "it was off the CPU, and the recording does not say why"),
        number("preemptions", "how often it was preempted"),
        duration("longest_preemption_ns", "the longest time that it was preempted"),
        text("preempted_by", "the thread that had its CPU for most of that time"),
        text("woken_by", "the thread whose wake-ups ended most of its sleep"),
    ),
    needs=("sched_events",),
    notes=(
        "The times of a thread add up to the time from its first switch to its end, or the "
        "recording's.",
        "Without wake-ups (LTTng's sched_waking or sched_wakeup), woken_ns is part of blocked_ns.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per thread, those first that waited longest for a CPU."""
    states = list_thread_states(run.table("sched_events"), run.table("wakeups")).with_columns(
        length=pl.col("end_ns") - pl.col("start_ns")
    )
    names = _list_names(run)
    is_preempted = pl.col("state") == "preempted"
    found = states.group_by(THREAD, maintain_order=True).agg(
        pl.col("pid").drop_nulls().last(),
        *(
            pl.col("length").filter(pl.col("state") == state).sum().alias(f"{state}_ns")
            for state in _STATES
        ),
        preemptions=is_preempted.sum(),
        longest_preemption_ns=pl.col("length").filter(is_preempted).max(),
    )
    # A sleep ends when the state after it begins: that is the wake-up, which knows the waker.
    slept = pl.col("length").shift(1).over(THREAD)
    sleeps = states.with_columns(length=slept).filter(pl.col("state") == "woken")
    for column, intervals in (
        ("preempted_by", states.filter(is_preempted)),
        ("woken_by", sleeps),
    ):
        longest = _name_longest(intervals, names).rename({"other": column})
        found = found.join(longest, on=THREAD, how="left", maintain_order="left")
    found = found.join(names, on=THREAD, how="left", maintain_order="left")
    waited = pl.col("preempted_ns") + pl.col("woken_ns")
    columns = [column.name for column in ANALYSIS.columns]
    return found.sort(waited, "running_ns", "tid", descending=[True, True, False]).select(columns)


def _list_names(run: Run) -> pl.DataFrame:
    named = run.table("threads").select(*THREAD, pl.col("thread_name").cast(pl.String))
    return named.unique(THREAD, keep="last", maintain_order=True)


def _name_longest(intervals: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The other thread of each that the intervals are longest with, as `name (tid)`."""
    others = names.rename({"tid": "other_tid", "thread_name": "other_name"})
    summed = (
        intervals.drop_nulls("other_tid")
        .group_by(*THREAD, "other_tid")
        .agg(pl.col("length").sum())
        .sort("length", "other_tid", descending=[True, False])
        .unique(THREAD, keep="first", maintain_order=True)
        .join(others, on=["rank", "recording_id", "other_tid"], how="left", maintain_order="left")
    )
    number_ = pl.col("other_tid").cast(pl.String)
    named = pl.concat_str("other_name", pl.lit(" ("), number_, pl.lit(")"))
    idle = pl.when(pl.col("other_tid") == 0).then(pl.lit("an interrupt of an idle CPU"))
    return summed.select(*THREAD, other=pl.coalesce(idle, named, pl.lit("thread ") + number_))
