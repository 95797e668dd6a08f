"""What ended each sleep of a CPU thread: another thread, or an interrupt of a timer, disk, network.

A wake-up that happens while its CPU handles an interrupt is the interrupt's, whatever thread that
interrupted; one by a thread that handles interrupts is the network's if a packet came meanwhile.
The vectors are those of Trace Compass (OsExecutionGraph, `resolveSoftirq`); an interrupt in which a
disk's request was completed counts as the disk's.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.lookup import take_rows
from sightline.core.model.run import Run
from sightline.timeline.thread_states import THREAD, list_thread_states

THREAD_, TIMER, DISK, NETWORK, INTERRUPT, UNKNOWN = (
    "thread",
    "timer",
    "disk",
    "network",
    "interrupt",
    "unknown",
)
_PLACE = ["rank", "recording_id", "cpu"]
# Kernel threads that handle interrupts: kernel/irq/manage.c, `setup_irq_thread`, and
# net/core/dev.c, `napi_kthread_create`.
_INTERRUPT_THREADS = "^(?:irq|napi)/"
# include/linux/interrupt.h: the vectors of softirqs.
_OF_VECTOR = {
    "HRTIMER": TIMER,
    "TIMER": TIMER,
    "BLOCK": DISK,
    "IRQ_POLL": DISK,
    "NET_TX": NETWORK,
    "NET_RX": NETWORK,
}


def list_states(run: Run) -> pl.DataFrame:
    """The states of all threads, made once for a run: see `list_thread_states`."""
    return run.once(_make_states)


def list_sleeps(run: Run) -> pl.DataFrame:
    """Sleeps with what ended them, made once for a run.

    Columns: rank, recording_id, pid, tid, start_ns, end_ns, state (blocked, uninterruptible or
    off_cpu), source (thread, timer, disk, network, interrupt or unknown), source_name (of the
    interrupt), waker_tid (of a thread), waker_cpu, source_ns (when the interrupt began) and
    is_ended (false: it lasts until the recording's end).
    Time off the CPU counts where a wake-up ended it: a thread that was preempted needs none.
    """
    return run.once(_make_sleeps)


def _make_states(run: Run) -> pl.DataFrame:
    return list_thread_states(run.table("sched_events"), run.table("wakeups"))


def _make_sleeps(run: Run) -> pl.DataFrame:
    states = list_states(run)
    following = {
        name: pl.col(name).shift(-1).over(THREAD) for name in ("state", "other_tid", "waker_cpu")
    }
    sleeps = states.with_columns(
        after=following["state"], waker_tid=following["other_tid"], cpu=following["waker_cpu"]
    ).filter(pl.col("state").is_in(["blocked", "uninterruptible", "off_cpu"]))
    woken = pl.col("after") == "woken"
    sleeps = sleeps.filter((pl.col("state") != "off_cpu") | woken.fill_null(value=False))
    # A thread that went to sleep with the last event has not slept.
    sleeps = sleeps.filter(pl.col("start_ns") < pl.col("end_ns"))
    context = _find_interrupts(run, sleeps)
    sleeps = sleeps.hstack(context).with_columns(
        source=pl.when(~woken.fill_null(value=False))
        .then(pl.lit(UNKNOWN))
        .when(pl.col("interrupt_source").is_not_null())
        .then("interrupt_source")
        .when(pl.col("waker_tid") > 0)
        .then(pl.lit(THREAD_))
        # An idle CPU wakes nobody by itself: an interrupt did that was not recorded.
        .otherwise(pl.lit(INTERRUPT)),
        is_ended=pl.col("after").is_not_null(),
    )
    sleeps = _find_interrupt_threads(run, sleeps)
    is_thread = pl.col("source") == THREAD_
    is_interrupt = pl.col("source").is_in([TIMER, DISK, NETWORK, INTERRUPT])
    return sleeps.select(
        *THREAD,
        "pid",
        "start_ns",
        "end_ns",
        "state",
        "source",
        source_name=pl.when(is_interrupt).then("interrupt_name"),
        waker_tid=pl.when(is_thread).then("waker_tid"),
        waker_cpu="cpu",
        source_ns=pl.when(is_interrupt).then("interrupt_ns"),
        is_ended="is_ended",
    )


def _find_interrupt_threads(run: Run, sleeps: pl.DataFrame) -> pl.DataFrame:
    """The sleeps; those are the network's that a handler's thread ended after a packet had come."""
    packets = run.table("packets").filter(pl.col("direction") == "received")
    if packets.is_empty():
        return sleeps
    names = run.table("threads").select(*THREAD, name=pl.col("thread_name").cast(pl.String))
    names = names.unique(THREAD, keep="last").rename({"tid": "waker_tid", "name": "handler"})
    keys = ["rank", "recording_id", "waker_tid"]
    named = sleeps.join(names, on=keys, how="left", maintain_order="left")
    ran = list_states(run).filter(pl.col("state") == "running")
    row = find_latest(named, "end_ns", ran, "start_ns", _PLACE)
    came = take_rows(ran.select(came_ns="start_ns", on_cpu="tid"), row)
    row = find_latest(named, "end_ns", packets, "time_ns", _PLACE)
    got = take_rows(packets.select(packet_ns="time_ns"), row)
    is_network = (
        (pl.col("source") == THREAD_)
        & pl.col("handler").str.contains(_INTERRUPT_THREADS)
        & (pl.col("on_cpu") == pl.col("waker_tid"))
        & (pl.col("packet_ns") >= pl.col("came_ns"))
    ).fill_null(value=False)
    return (
        named.hstack(came)
        .hstack(got)
        .with_columns(
            source=pl.when(is_network).then(pl.lit(NETWORK)).otherwise("source"),
            interrupt_name=pl.when(is_network).then("handler").otherwise("interrupt_name"),
            interrupt_ns=pl.when(is_network).then("came_ns").otherwise("interrupt_ns"),
        )
    )


def _find_interrupts(run: Run, sleeps: pl.DataFrame) -> pl.DataFrame:
    """For each sleep the interrupt that its waking CPU was in: what it was for, and its name."""
    interrupts = run.table("interrupts")
    asked = sleeps.select(*_PLACE, at="end_ns")
    best = asked.select(
        began=pl.lit(None, pl.Int64), kind=pl.lit(None, pl.String), name=pl.lit(None, pl.String)
    )
    # Interrupts of one kind do not nest on a CPU; of several kinds the one that began last is on.
    for kind in ("irq", "softirq", "hrtimer"):
        known = interrupts.filter(pl.col("kind") == kind)
        row = find_latest(asked, "at", known, "start_ns", _PLACE)
        found = take_rows(known.select("start_ns", "end_ns", "kind", "name"), row)
        found = found.with_columns(pl.col("kind", "name").cast(pl.String), asked.get_column("at"))
        is_on = (pl.col("at") <= pl.col("end_ns")).fill_null(value=False)
        is_later = is_on & (
            pl.lit(best.get_column("began")).is_null()
            | (pl.col("start_ns") > pl.lit(best.get_column("began")))
        )
        best = found.select(
            pl.when(is_later).then(new).otherwise(pl.lit(best.get_column(old))).alias(old)
            for old, new in (("began", "start_ns"), ("kind", "kind"), ("name", "name"))
        )
    # A request that the interrupt completed, before it woke the thread.
    ended = run.table("disk_requests").select("rank", "recording_id", "end_ns")
    done = asked.select("rank", "recording_id", began=best.get_column("began"))
    row = find_next(done, "began", ended, "end_ns", ["rank", "recording_id"])
    completed = take_rows(ended.select(done_ns="end_ns"), row).get_column("done_ns")
    is_disk = (pl.lit(completed) <= asked.get_column("at")).fill_null(value=False)
    vector = pl.col("name").replace_strict(_OF_VECTOR, default=None, return_dtype=pl.String)
    return best.select(
        interrupt_source=pl.when(pl.col("began").is_null())
        .then(None)
        .when(pl.col("kind") == "hrtimer")
        .then(pl.lit(TIMER))
        .when((pl.col("kind") == "softirq") & vector.is_not_null())
        .then(vector)
        .when((pl.col("kind") == "irq") & is_disk)
        .then(pl.lit(DISK))
        # Trace Compass: interrupt 0 is the timer's; those of LTTng's vectors say it by name.
        .when((pl.col("kind") == "irq") & pl.col("name").str.contains("(?i)timer"))
        .then(pl.lit(TIMER))
        .otherwise(pl.lit(INTERRUPT)),
        interrupt_name="name",
        interrupt_ns="began",
    )


def count_runnable(run: Run) -> pl.DataFrame:
    """Spans of time with `runnable`, and the `cpus` that threads ran on: of each trace by itself.

    Columns: rank, recording_id, start_ns, end_ns, and these. Runnable are the threads that run,
    were preempted, or were woken and do not run yet.
    """
    trace = ["rank", "recording_id"]
    states = list_states(run)
    wants = states.filter(pl.col("state").is_in(["running", "preempted", "woken"]))
    steps = pl.concat(
        [
            wants.select(*trace, at="start_ns", step=pl.lit(1, pl.Int64)),
            wants.select(*trace, at="end_ns", step=pl.lit(-1, pl.Int64)),
        ]
    )
    steps = steps.group_by(*trace, "at").agg(pl.col("step").sum()).sort(*trace, "at")
    spans = steps.select(
        *trace,
        start_ns="at",
        end_ns=pl.col("at").shift(-1).over(trace),
        runnable=pl.col("step").cum_sum().over(trace),
    ).drop_nulls("end_ns")
    ran = run.table("sched_events").group_by(trace).agg(cpus=pl.col("cpu").n_unique())
    return spans.join(ran.with_columns(pl.col("cpus").cast(pl.Int64)), on=trace)


def list_crowded_times(run: Run) -> pl.DataFrame:
    """Spans of time (of `count_runnable`) in which more threads wanted to run than cores ran."""
    return count_runnable(run).filter(pl.col("runnable") > pl.col("cpus"))
