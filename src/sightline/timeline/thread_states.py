"""What each CPU thread did between events of the scheduler: it ran, waited for a CPU, or slept."""

from __future__ import annotations

import polars as pl

THREAD = ("rank", "recording_id", "tid")
# A thread that leaves its CPU in one of these states still wants to run
# (include/trace/events/sched.h: "R" or "R+"; nsys' word).
_RUNNABLE = ("R", "R+", "running")
# Mostly waits for a disk (Documentation/filesystems/proc.rst: "D").
_UNINTERRUPTIBLE = ("D", "uninterruptible")
# A thread that leaves its CPU in one of these does not come back (zombie, dead; nsys' word).
_ENDED = ("Z", "X", "x", "terminated")


def list_thread_states(switches: pl.DataFrame, wakeups: pl.DataFrame) -> pl.DataFrame:
    """Intervals of threads with their `state`, from the tables sched_events and wakeups.

    Columns: rank, recording_id, pid, tid, cpu, start_ns, end_ns, state, other_tid and waker_cpu.
    The states are running; preempted (another thread has its CPU: `other_tid`); blocked;
    uninterruptible; and woken, from the wake-up (by `other_tid`, or an interrupt of `waker_cpu`)
    until it runs, which only recordings with wake-ups tell from blocked; and off_cpu, where the
    recording does not say why it left its CPU (Nsight Systems, on Linux). The last state of a
    thread that has not ended ends with the recording's last event.
    """
    columns = [*THREAD, "pid", "cpu", "time_ns"]
    moves = _add_follower(switches).select(
        *columns,
        "other_tid",
        state=pl.when("switched_in")
        .then(pl.lit("running"))
        .when(pl.col("state").is_in(_RUNNABLE))
        .then(pl.lit("preempted"))
        .when(pl.col("state").is_in(_UNINTERRUPTIBLE))
        .then(pl.lit("uninterruptible"))
        .when(pl.col("state").is_in(_ENDED))
        .then(pl.lit("ended"))
        .when(pl.col("state").is_null())
        .then(pl.lit("off_cpu"))
        .otherwise(pl.lit("blocked")),
    )
    woken = wakeups.select(
        "rank",
        "recording_id",
        "time_ns",
        tid="woken_tid",
        cpu="target_cpu",
        other_tid="tid",
        waker_cpu="cpu",
        state=pl.lit("woken"),
    )
    moves = pl.concat([moves, woken], how="diagonal")
    order = pl.col("state").replace_strict({"running": 2, "woken": 1}, default=0)
    moves = moves.sort(*THREAD, "time_ns", order, maintain_order=True)
    moves = moves.with_columns(last_ns=pl.col("time_ns").max().over("rank", "recording_id"))
    # Only the first wake-up of a thread that sleeps changes its state.
    before = pl.col("state").shift(1).over(THREAD)
    asleep = before.is_in(["blocked", "uninterruptible", "off_cpu"])
    moves = moves.filter((pl.col("state") != "woken") | asleep.fill_null(value=False))
    ends = pl.col("time_ns").shift(-1).over(THREAD)
    moves = moves.with_columns(
        pl.col("pid").forward_fill().over(THREAD), end_ns=ends.fill_null(pl.col("last_ns"))
    ).drop("last_ns")
    return moves.filter(pl.col("state") != "ended").rename({"time_ns": "start_ns"})


def _add_follower(switches: pl.DataFrame) -> pl.DataFrame:
    """Switches with `other_tid`: the thread that comes when one leaves, where it was recorded."""
    place = ["rank", "recording_id", "cpu", "time_ns"]
    coming = switches.filter("switched_in").select(*place, other_tid="tid")
    coming = coming.unique(place, keep="last")
    found = switches.join(coming, on=place, how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(other_tid=pl.when(~pl.col("switched_in")).then("other_tid"))
