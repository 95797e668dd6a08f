"""When threads could not run, or slept for a disk, the network or a lock: intervals of threads.

What the rules about the operating system report, and what idle gaps are not blamed on the program
for.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between, merge_intervals
from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.timeline.sleeps import (
    DISK,
    NETWORK,
    THREAD_,
    list_crowded_times,
    list_sleeps,
    list_states,
)
from sightline.timeline.system_calls import FILES, LOCKS, name_calls

# What ties a thread of one recording to that of another: its number, which is unique on a host. A
# host goes by the rank of its trace.
ON_HOST = ["rank", "tid"]


def put_on_hosts(run: Run, spans: pl.DataFrame) -> pl.DataFrame:
    """Spans of threads with the rank of the trace of their host as `rank`, and theirs as `own`."""
    hosts = run.once(_find_hosts)
    found = spans.rename({"rank": "own"}).join(hosts, on="own", how="left", maintain_order="left")
    return found.with_columns(rank=pl.coalesce("rank", "own"))


def _find_hosts(run: Run) -> pl.DataFrame:
    """For each rank (`own`) the one by which the trace of its host goes: `rank`.

    A single trace is looked at for all ranks. Of several it is the rank's own; else that which has
    most of its threads.
    """
    traced = run.scan("sched_events").select("recording_id", *ON_HOST).unique().collect()
    hosts = traced.get_column("rank").unique()
    ranks = run.table("recordings").select(own="rank").unique().sort("own")
    if traced.get_column("recording_id").n_unique() == 1:
        return ranks.with_columns(rank=pl.lit(hosts.item(), pl.Int64))
    others = run.scan("host_ops").select("tid", own="rank").unique().collect()
    others = others.filter(~pl.col("own").is_in(hosts.implode()))
    common = others.join(traced.select(ON_HOST).unique(), on="tid").group_by("own", "rank").len()
    most = common.sort("own", "len", "rank", descending=[False, True, False])
    return most.unique("own", keep="first", maintain_order=True).select("own", "rank")


def list_waits_for_cpu(run: Run) -> pl.DataFrame:
    """States of threads that were preempted, or woken and not yet running."""
    return list_states(run).filter(pl.col("state").is_in(["preempted", "woken"]))


def list_waits_for_io(run: Run) -> pl.DataFrame:
    """Sleeps that a disk or the network ended, or in calls on files; `what` says which of them."""
    sleeps = name_calls(run, list_sleeps(run))
    in_file = (pl.col("state") == "uninterruptible") & pl.col("call").str.contains(FILES)
    is_network = pl.col("source") == NETWORK
    return sleeps.filter(
        is_network | (pl.col("source") == DISK) | in_file.fill_null(value=False)
    ).with_columns(what=pl.when(is_network).then(pl.lit(NETWORK)).otherwise(pl.lit(DISK)))


def list_waits_for_lock(run: Run) -> pl.DataFrame:
    """Sleeps in calls that wait for a lock, until another thread ended them."""
    sleeps = name_calls(run, list_sleeps(run).filter(pl.col("source") == THREAD_))
    return sleeps.filter(pl.col("call").str.contains(LOCKS).fill_null(value=False))


def list_interruptions(run: Run) -> pl.DataFrame:
    """Interrupts that a core handled while a thread was on it: `tid` is that thread."""
    return run.table("interrupts").filter(pl.col("tid") > 0)


def list_waits_in_spans(run: Run, spans: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What kept threads waiting in these spans of theirs, by cause of `idle_parts`.

    `spans` has rank, pid, tid, start_ns and end_ns; so have the waits, which no two causes share.
    """
    if spans.is_empty() or not run.rows("sched_events"):
        return {}
    spans = put_on_hosts(run, spans)
    for_cpu = list_waits_for_cpu(run)
    no_core = cut_to_spans(for_cpu, spans, ON_HOST)
    waits = {"cpu_oversubscribed" if is_oversubscribed(run, no_core) else "preempted": for_cpu}
    if run.rows("interrupts"):
        # A core that handles one interrupt inside of another is lost once.
        waits["interrupted"] = merge_intervals(list_interruptions(run), ON_HOST)
    if run.rows("wakeups") or run.rows("host_ops"):
        waits["blocked_io"] = list_waits_for_io(run)
    if run.rows("wakeups") and run.rows("host_ops"):
        waits["lock_wait"] = list_waits_for_lock(run)
    owners = spans.select("own", "pid", *ON_HOST).unique(maintain_order=True)
    return {
        cause: each.select(*ON_HOST, "start_ns", "end_ns")
        .join(owners, on=ON_HOST, maintain_order="left")
        .select(pl.col("own").alias("rank"), "pid", "tid", "start_ns", "end_ns")
        for cause, each in waits.items()
    }


def cut_to_spans(intervals: pl.DataFrame, spans: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The parts of the intervals in spans of the same thread, with `length` in ns.

    Spans of one thread may be of several devices, at once: a time counts once.
    """
    spans = merge_intervals(spans, by).sort(*by, "start_ns")
    asked = intervals.with_columns(last_ns=pl.col("end_ns") - 1)
    begun = find_latest(asked, "start_ns", spans, "start_ns", by)
    is_open = spans.get_column("end_ns").gather(begun) > asked.get_column("start_ns")
    after = find_next(asked, "start_ns", spans, "start_ns", by)
    place = pl.DataFrame({"begun": begun, "open": is_open, "after": after}).select(
        first=pl.when("open").then("begun").otherwise("after"),
        end=pl.lit(find_latest(asked, "last_ns", spans, "start_ns", by)) + 1,
    )
    met = place.with_row_index("row").filter(pl.col("first") < pl.col("end"))
    met = met.select("row", span=pl.int_ranges("first", "end")).explode("span")
    cut = intervals[met.get_column("row")].with_columns(
        start_ns=pl.max_horizontal(
            "start_ns", spans.get_column("start_ns").gather(met.get_column("span"))
        ),
        end_ns=pl.min_horizontal(
            "end_ns", spans.get_column("end_ns").gather(met.get_column("span"))
        ),
    )
    return cut.with_columns(length=pl.col("end_ns") - pl.col("start_ns"))


def is_oversubscribed(run: Run, parts: pl.DataFrame) -> bool:
    """Whether most of these times had more threads that wanted to run than CPU cores."""
    return 2 * measure_crowded(run, parts) > sum_column(parts, "length")


def measure_crowded(run: Run, parts: pl.DataFrame) -> int:
    """How much of these times had more threads that wanted to run than CPU cores, ns."""
    crowded = list_crowded_times(run)
    trace = ["rank", "recording_id"]
    inside = measure_cover_between(parts, "start_ns", "end_ns", crowded, trace)
    return int(inside.sum())
