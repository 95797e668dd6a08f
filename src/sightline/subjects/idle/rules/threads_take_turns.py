"""Several threads launch, and never two of them at once: something lets only one work at a time.

Symptom
    A program launches from many threads, each on a stream of its own, and is no faster than with
    one: the device waits for the next launch, whoever makes it.

Why it hurts
    A lock around preparing and launching (a mutex, a queue's, Python's interpreter lock) makes of n
    threads one: what the host needs for a launch is paid n times in a row.

Evidence
    How often a thread's launch call begins while another thread is in one of its own, against how
    often it would by chance, from the threads' numbers of calls and their lengths. The gain is a
    bound: all threads at once, no faster than any one stream's own work, or one thread's launches.

Threshold
    Three threads or more with at least a tenth as many launches as the one that launches most: two
    may hand over to each other, as PyTorch's main thread and its autograd thread do. Twenty
    meetings expected, and at most a tenth of them seen (ours: of twenty expected, two or fewer come
    about by chance once in two million times, Poisson). Idle time of late launches over 5 %.

Fix
    Prepare outside of the lock, and hold it for what is shared only; or give each thread its own
    data and stream, and no lock.

False positives
    Threads that hand work to each other (a pipeline of stages) launch in turn by design.

References
    CUDA C++ Best Practices Guide, "Concurrent Execution"; NVIDIA Nsight Systems User Guide, "OS
    runtime libraries trace" (pthread_mutex_lock).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, find_span
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, keep_notable
from sightline.replay.gains import sum_windows
from sightline.replay.graph import list_nodes
from sightline.replay.replay import is_op, select_calls_of
from sightline.timeline import causes

RULE = Rule("threads-take-turns", "Threads that launch in turn, and never at once")

_LEAST_THREADS, _LEAST_SHARE = 3, 0.1
_LEAST_EXPECTED, _MOST_SEEN = 20, 0.1
_PROCESS = ["rank", "pid"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: of the process that loses most."""
    if not run.rows("device_ops") or not run.rows("host_ops"):
        return
    late = run.ask("idle_rules").filter(pl.col("rule").is_in([causes.LAUNCHES, causes.HOST]))
    cost_ns = int(late.get_column("duration_ns").sum())
    if not cost_ns:
        return
    calls = _list_launching(list_nodes(run))
    for (rank, _), mine in calls.partition_by(_PROCESS, as_dict=True).items():
        threads = _count_threads(mine)
        if threads.height < _LEAST_THREADS:
            continue
        expected, seen = _count_meetings(mine.join(threads.select("tid"), on="tid"))
        if expected < _LEAST_EXPECTED or seen > _MOST_SEEN * expected:
            continue
        gain_ns = min(_bound_gain(run, mine, threads), cost_ns)
        found = build_finding(
            RULE,
            f"{format_several(threads.height, 'thread')} launch, and never two at once: launches "
            f"overlapped another thread's {format_count(seen)} times, where "
            f"{format_count(round(expected))} would by chance. Something, most likely a lock, "
            "lets only one of them work at a time.",
            Evidence(
                [
                    f"a launch every {format_ns(_measure_pace(mine))}, by one thread or another; "
                    f"each launches {format_count(find_largest(threads, 'calls'))} times at most",
                ],
                where={"ranks": [rank], "cause": "host_late"},
            ),
            Advice(
                fix="prepare outside the lock and hold it only for shared state, or give each "
                "thread its own data and stream and no lock; sightline run --cpu-stacks names it",
                verify="sightline stats breakdown AFTER: idle_pct falls as threads are added",
                cause="a lock around preparing and launching makes one thread of several",
                sources=("CUDA C++ Best Practices Guide: Concurrent Execution",),
            ),
            price=(
                Price(cost_ns, "ns", 100 * cost_ns / sum_windows(run)),
                Price(gain_ns, "ns", 100 * gain_ns / sum_windows(run)),
            ),
            confidence="medium",
            method="bound: all threads at once, no faster than a stream's own work",
        )
        yield from keep_notable(run, found)
        return


def _list_launching(nodes: pl.DataFrame) -> pl.DataFrame:
    """The calls that launch: rank, pid, tid, start_ns, end_ns, in order of time."""
    mine = nodes.filter(select_calls_of(nodes, is_op(nodes)))
    return mine.select(*_PROCESS, "tid", "start_ns", "end_ns").sort("start_ns")


def _count_threads(calls: pl.DataFrame) -> pl.DataFrame:
    """The threads that launch much: tid, calls, and busy_ns in them."""
    each = calls.group_by("tid").agg(
        calls=pl.len().cast(pl.Int64), busy_ns=(pl.col("end_ns") - pl.col("start_ns")).sum()
    )
    return each.filter(pl.col("calls") >= _LEAST_SHARE * pl.col("calls").max())


def _count_meetings(calls: pl.DataFrame) -> tuple[float, int]:
    """How many calls would begin in another thread's by chance, and how many do."""
    each = _count_threads(calls)
    first, last = find_span(calls, "start_ns")[0], find_span(calls, "end_ns")[1]
    others = pl.col("busy_ns").sum() - pl.col("busy_ns")
    expected = each.select((pl.col("calls") * others).sum() / max(last - first, 1)).item()
    within = calls.get_column("start_ns") < calls.get_column("end_ns").cum_max().shift(1)
    changed = calls.get_column("tid") != calls.get_column("tid").shift(1)
    return float(expected), int((within & changed).sum())


def _measure_pace(calls: pl.DataFrame) -> int:
    """The usual time from one launch to the next, of any thread, ns."""
    return int(calls.get_column("start_ns").diff().median() or 0)  # type: ignore[arg-type]


def _bound_gain(run: Run, calls: pl.DataFrame, threads: pl.DataFrame) -> int:
    """The window less what is left of it with all threads at once, ns."""
    whole = find_span(calls, "end_ns")[1] - find_span(calls, "start_ns")[0]
    share = threads.select(pl.col("calls").max() / pl.col("calls").sum()).item()
    ops = run.table("device_ops", ["rank", "device_id", "stream_id", "start_ns", "end_ns"])
    rank = calls.item(0, "rank")
    lanes = ops.filter(pl.col("rank") == rank).group_by("device_id", "stream_id")
    busiest = lanes.agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    return max(0, round(whole - max(whole * float(share), find_largest(busiest, "ns"))))
