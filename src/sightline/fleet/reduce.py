"""One rank, reduced to its collectives and what it did between them: some dozen kilobytes.

A rank's time is a chain: from the end of the collective that ended last before it (its anchor), or
the beginning of the recording, to the start of the next, and so on to the end. What lies between is
compute, copies, and idle time, by the disjoint partition of the device's time. None of it depends
on how the rank's clock stands to the others'. Ranks of one run are reduced in one pass: each
question costs a millisecond or two beside what its rows cost, and a short trace has few rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between, measure_cover_until
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, find_rows, take_rows
from sightline.core.model.run import Run
from sightline.timeline.api_calls import allocates, may_wait
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run
from sightline.timeline.collectives import describe_collectives
from sightline.timeline.iterations import list_marked_steps

_BY = ["rank", "device_id"]
_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
_OWN = ("device_op_id", "kind", "name", "start_ns", "end_ns")
_KEPT = (
    *(*_OWN, "device_id", "stream_id"),
    *("op", "group", "group_size", "sequence", "dtype", "bytes", "members", "source", "target"),
    *("worked_start_ns", "worked_end_ns", "step"),
)


@dataclass(frozen=True)
class Rank:
    """One rank: its collectives in order of time, and what is left of it behind the last.

    `rows` has for each: device_op_id (its place), start_ns and end_ns on the rank's own clock, the
    description, `anchor` (the place of the collective that it follows, or −1), and what lies
    between the two: `segment_ns`, of it `compute_ns`, `copy_ns` and `idle_ns`, and `kernels`.
    `queued` is the place of the send that its stream had to end before (or −1), and `behind_ns` how
    long after that it began if it waited for that. `worked_start_ns` and `worked_end_ns` are the
    compute before its start and its end; `step` is the number of the marked step that it is of.
    `ahead_ns` is how much earlier than it did it could start for all that its host had to do: the
    host asked so long before, or had waited for the device so long; null without a launch.
    """

    rank: int
    rows: pl.DataFrame
    begin_ns: int
    end_ns: int
    tail_ns: int  # from the last end of a collective to the end of the recording
    parts: dict[str, int]  # the breakdown of the device's window, ns
    world_size: int | None = None  # how many ranks the job has, where recorded


def reduce_ranks(run: Run) -> list[Rank]:
    """What other ranks need of each of a run's; none of one without device operations.

    Of a process with several devices, the one with most communication stands for all.
    """
    ops = classify_run(run) if run.rows("device_ops") else pl.DataFrame()
    if ops.is_empty():
        return []
    devices = _choose_devices(ops)
    ops = ops.join(devices, on=_BY, how="semi", maintain_order="left")
    comm = ops.filter(pl.col("class_") == COMMUNICATION).sort(
        "rank", "start_ns", "name", "stream_id", "end_ns", "device_op_id"
    )  # of those that begin at once the recorder's order says nothing
    spans = ops.group_by("rank").agg(begin_ns=pl.min("start_ns"), end_ns=pl.max("end_ns"))
    work = ops.filter(pl.col("class_") == COMPUTE)
    copies = ops.filter(pl.col("class_") == COPY)
    rows = list_segments(run, comm, work, copies, spans).with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64).over("rank")
    )
    of_rank = rows.partition_by("rank", as_dict=True, maintain_order=True)
    shares = run.ask("breakdown").join(devices, on=_BY, how="semi").select("rank", *_PARTS)
    worlds = run.table("recordings").group_by("rank").agg(pl.max("world_size"))
    facts = spans.join(shares, on="rank").join(worlds, on="rank", how="left").sort("rank")
    return [
        _make_rank(of_rank.get((row["rank"],), rows.clear()), row)
        for row in facts.iter_rows(named=True)
    ]


def _choose_devices(ops: pl.DataFrame) -> pl.DataFrame:
    """The device that stands for each rank: rank, device_id."""
    counts = ops.group_by(_BY).agg(
        comm=(pl.col("class_") == COMMUNICATION).sum(), ops=pl.len().cast(pl.Int64)
    )
    communicates = pl.col("comm").sum().over("rank") > 0
    return (
        counts.select(*_BY, n=pl.when(communicates).then("comm").otherwise("ops"))
        .sort("rank", "n", "device_id", descending=[False, True, False])
        .unique("rank", keep="first", maintain_order=True)
        .select(_BY)
    )


def _make_rank(rows: pl.DataFrame, facts: dict[str, Any]) -> Rank:
    begin, end = facts["begin_ns"], facts["end_ns"]
    tail = end - int(rows.get_column("end_ns").max() or begin)  # type: ignore[arg-type]
    parts = {name: facts[name] for name in _PARTS}
    return Rank(facts["rank"], rows, begin, end, tail, parts, facts["world_size"])


def list_segments(
    run: Run, comm: pl.DataFrame, work: pl.DataFrame, copies: pl.DataFrame, begins: pl.DataFrame
) -> pl.DataFrame:
    """The rows of ranks: communication in order of rank and time, and what lies before each.

    `begins` says of each rank when it begins (rank, begin_ns).
    """
    edges = _measure_covers(comm, work, start=comm["start_ns"], end=comm["end_ns"])
    worked = {f"worked_{edge}_ns": cover for edge, cover in edges.items()}
    comm = comm.select(*_OWN, *_BY, "stream_id", "launch_id")
    comm = comm.join(_describe(run), on="device_op_id", how="left", maintain_order="left")
    comm = comm.with_columns(**worked, step=_find_steps(run, comm))
    anchor = _find_anchors(run, comm, work)
    begin = _take_begins(comm, begins)
    from_ns = pl.coalesce(anchor.get_column("t"), begin)
    spans = comm.select(*_BY, "start_ns", from_ns=from_ns)
    spans = spans.with_columns(to_ns=pl.max_horizontal("from_ns", anchor.get_column("needed_ns")))
    times = {"start": spans["from_ns"], "end": spans["to_ns"]}
    compute, busy = (
        found["end"] - found["start"]
        for found in (
            _measure_covers(comm, of, **times) for of in (work, pl.concat([work, copies]))
        )
    )
    behind = pl.col("start_ns") - anchor.get_column("queued_t")
    segment = pl.col("start_ns") - spans.get_column("from_ns")
    # A place is one among its rank's.
    first = pl.int_range(pl.len()) - pl.int_range(pl.len()).over("rank")
    # Where the stream was still busy, being idle until then was not for want of anything else.
    ready = pl.min_horizontal(segment, busy + behind)
    return comm.select(
        *_KEPT,
        "rank",
        anchor=(anchor.get_column("place") - first).fill_null(-1),
        queued=(anchor.get_column("queued") - first).fill_null(-1),
        behind_ns=pl.when(ready < segment).then(behind).otherwise(0),
        segment_ns=ready,
        compute_ns=compute,
        copy_ns=busy - compute,
        kernels=_count_starts(work, spans),
        idle_ns=ready - busy,
        ahead_ns=_measure_lead(run, comm, begin),
    )


def _take_begins(comm: pl.DataFrame, begins: pl.DataFrame) -> pl.Series:
    whose = comm.select("rank").join(
        begins.select("rank", "begin_ns"), on="rank", how="left", maintain_order="left"
    )
    return whose.get_column("begin_ns").cast(pl.Int64)


def _count_starts(work: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """How many kernels of its rank begin within each span."""
    starts = {
        rank: own.get_column("start_ns").sort()
        for (rank,), own in work.partition_by("rank", as_dict=True).items()
    }
    none = pl.Series(dtype=pl.Int64)
    counts = [
        starts.get(rank, none).search_sorted(own.get_column("to_ns")).cast(pl.Int64)
        - starts.get(rank, none).search_sorted(own.get_column("from_ns")).cast(pl.Int64)
        for (rank,), own in spans.partition_by("rank", as_dict=True, maintain_order=True).items()
    ]
    return pl.concat(counts) if counts else none


def _measure_lead(run: Run, comm: pl.DataFrame, begin: pl.Series) -> pl.Series:
    """How much earlier each kernel could start if its host had never waited for the device, ns.

    Every call that may wait, and what another call takes beyond the usual one of its name (a queue
    may be full), on any thread: all the rest the host has to do, whatever other ranks do. From the
    call on a kernel needs the shortest time that any took.
    """
    calls = run.table("host_ops").filter(pl.col("layer").is_in(["runtime", "driver"]))
    names = Texts(calls.get_column("name"))
    usual = (pl.col("end_ns") - pl.col("start_ns")).quantile(0.5, "lower").over("rank", "name")
    waits = calls.with_columns(waits=may_wait(names) | allocates(names)).select(
        "rank",
        start_ns=pl.when("waits").then("start_ns").otherwise(pl.col("start_ns") + usual),
        end_ns="end_ns",
    )
    waits = waits.filter(pl.col("end_ns") > pl.col("start_ns"))
    asked = _add_calls(run, comm).select("rank", "start_ns", "called_ns", begin_ns=begin)
    waited = measure_cover_between(asked, "begin_ns", "called_ns", waits, ["rank"])
    behind = (pl.col("start_ns") - pl.col("called_ns")).clip(lower_bound=0)
    lead = behind - behind.min().over("rank") + pl.lit(waited).clip(lower_bound=0)
    return asked.select(lead).to_series()


def _measure_covers(
    comm: pl.DataFrame, intervals: pl.DataFrame, **times: pl.Series
) -> dict[str, pl.Series]:
    """How many ns the intervals cover before each of several times of every kernel."""
    asked = pl.concat(comm.select(*_BY, at=moments) for moments in times.values())
    cover = measure_cover_until(asked, "at", intervals, _BY)
    return {name: cover.slice(n * comm.height, comm.height) for n, name in enumerate(times)}


def _find_anchors(run: Run, comm: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """What each kernel came after: places and ends, or nulls; one row a kernel.

    `place`, `t` are of the one that ended last before it. A send beside which the device computes
    is none: only what is behind it on its stream waits for it (`queued`, `queued_t`). Behind a send
    a kernel may begin long after it could: `needed_ns` is until when it may have waited for else.
    """
    is_send = (pl.col("op") == "send").fill_null(value=False)
    passed = is_send & (pl.col("worked_end_ns") > pl.col("worked_start_ns"))
    by = [*_BY, "stream_id"]
    ended = comm.select(
        *by, t="end_ns", place=pl.int_range(pl.len()), passed=passed, sent=is_send
    ).sort("t", maintain_order=True)
    sent, waited = ended.filter("sent"), ended.filter(~pl.col("passed"))
    queued = take_rows(
        sent.select(queued="place", queued_t="t"), find_latest(comm, "start_ns", sent, "t", by)
    )
    needed = _find_needed(run, comm, work, queued.get_column("queued_t"))
    asked = comm.with_columns(needed_ns=needed)
    anchor = take_rows(
        waited.select("place", "t"), find_latest(asked, "needed_ns", waited, "t", _BY)
    )
    return pl.concat([anchor, queued, asked.select("needed_ns")], how="horizontal")


def _add_calls(run: Run, ops: pl.DataFrame) -> pl.DataFrame:
    """Operations with `called_ns`, when the host asked for each; null where no launch is known."""
    host = run.table("host_ops", ["host_op_id", "start_ns"])
    calls = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    return ops.with_columns(called_ns=host.get_column("start_ns").gather(calls))


def _find_needed(run: Run, comm: pl.DataFrame, work: pl.DataFrame, queued: pl.Series) -> pl.Series:
    """Until when each kernel may have waited for compute: its start, unless its stream was busy.

    Then it is the end of the compute that the host had asked for last before it: NCCL's stream
    waits for the event recorded then (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
    """
    start = comm.get_column("start_ns")
    if queued.null_count() == queued.len():
        return start
    asked = (
        _add_calls(run, work)
        .select(*_BY, "called_ns", "end_ns")
        .drop_nulls("called_ns")
        .sort("called_ns", maintain_order=True)
    )
    last = find_latest(_add_calls(run, comm), "called_ns", asked, "called_ns", _BY)
    ended = take_rows(asked.select("end_ns"), last).get_column("end_ns")
    frame = pl.DataFrame({"start": start, "ended": ended, "queued": queued})
    waited = pl.col("queued").is_not_null() & (pl.col("ended") < pl.col("start"))
    return frame.select(pl.when(waited).then("ended").otherwise("start")).to_series()


def _find_steps(run: Run, comm: pl.DataFrame) -> pl.Series:
    """The number of the marked step in which each kernel was launched, from 0; else null."""
    steps = list_marked_steps(run).sort("rank", "start_ns")
    if steps.is_empty():
        return pl.repeat(None, comm.height, dtype=pl.Int64, eager=True)
    called = _add_calls(run, comm).select(*_BY, t=pl.coalesce("called_ns", "start_ns"))
    begun = steps.select("rank", t="start_ns", step=pl.int_range(pl.len()).over("rank"))
    found = find_latest(called, "t", begun, "t", ["rank"])
    return take_rows(begun.select("step"), found).get_column("step")


def _describe(run: Run) -> pl.DataFrame:
    """What the collectives are; the list of a group's ranks as its hash: it may be long."""
    described = describe_collectives(run.table("collectives"))
    known = described.get_column("members").drop_nulls().unique()
    short = {text: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in known}
    return described.with_columns(
        pl.col("members").replace_strict(short, default=None, return_dtype=pl.String)
    )
