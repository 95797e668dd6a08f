"""Which locks threads waited for, who held them, and how long.

A thread that waits for a lock of the C library, or for a condition, sleeps in the system call
`futex`; who holds the lock is who wakes it. LTTng says which futex it is by its address.
"""

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
from sightline.timeline.sleeps import THREAD_, list_sleeps
from sightline.timeline.system_calls import LOCKS, list_system_calls, name_calls

ANALYSIS = Analysis(
    "lock_waits",
    "Which locks did threads sleep for, and who held them?",
    (
        RANK,
        number("pid", "process id"),
        text("lock", "address of the futex; null where it was not recorded"),
        text("call", "call that the threads slept in", required=True),
        *LENGTHS,
        number("waiters", "threads that waited"),
        text("waited_most", "the thread that waited longest for it"),
        text("held_by", "the thread whose wake-ups ended most of that time"),
    ),
    needs=("sched_events", "host_ops"),
    notes=(
        "Counted is the time asleep up to the wake-up by another thread: a wait that a timer "
        "ended is not counted.",
        "A futex is a lock, a condition or a barrier: the recording does not say which.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per lock and call, the most time first."""
    sleeps = name_calls(run, list_sleeps(run).filter(pl.col("source") == THREAD_))
    sleeps = sleeps.filter(pl.col("call").str.contains(LOCKS).fill_null(value=False))
    addresses = list_system_calls(run).select(call_id="host_op_id", lock="payload")
    sleeps = sleeps.join(addresses, on="call_id", how="left", maintain_order="left")
    sleeps = name_threads(sleeps, run, "tid", "thread_name")
    sleeps = name_threads(sleeps, run, "waker_tid", "waker_name").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        waited_most=describe_thread("tid", "thread_name"),
        held_by=describe_thread("waker_tid", "waker_name"),
    )
    by = ["rank", "pid", "lock", "call"]
    found = sleeps.group_by(by, maintain_order=True).agg(
        *sum_lengths(), waiters=pl.col("tid").n_unique().cast(pl.Int64)
    )
    for column in ("waited_most", "held_by"):
        longest = find_longest(sleeps, by, column)
        found = found.join(longest, on=by, how="left", nulls_equal=True, maintain_order="left")
    order = found.sort(by).sort("total_ns", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)
