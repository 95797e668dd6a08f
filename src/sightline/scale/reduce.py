"""One rank, reduced to its collectives and what it did between them: some dozen kilobytes.

A rank's time is a chain: from the end of the collective that ended last before it (its anchor), or
the beginning of the recording, to the start of the next, and so on to the end. What lies between is
compute, copies, and idle time, by the disjoint partition of the device's time. None of it depends
on how the rank's clock stands to the others'.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import polars as pl

from sightline.algebra.intervals import measure_cover_until
from sightline.algebra.latest import find_latest
from sightline.algebra.lookup import take_rows
from sightline.model.run import Run
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run
from sightline.timeline.collectives import describe_collectives

_BY = ["rank", "device_id"]


@dataclass(frozen=True)
class Rank:
    """One rank: its collectives in order of time, and what is left of it behind the last.

    `rows` has for each: device_op_id (its place), start_ns and end_ns on the rank's own clock, the
    description, `anchor` (the place of the collective that it follows, or −1), and what lies
    between the two: `segment_ns`, of it `compute_ns`, `copy_ns` and `idle_ns`, and `kernels`.
    """

    rank: int
    rows: pl.DataFrame
    begin_ns: int
    end_ns: int
    tail_ns: int  # from the last end of a collective to the end of the recording
    parts: dict[str, int]  # the breakdown of the device's window, ns
    world_size: int | None = None  # how many ranks the job has, where recorded


def reduce_rank(run: Run, rank: int) -> Rank | None:
    """What other ranks need of this one; None where no device operation was recorded.

    Of a process with several devices, the one with most communication stands for all.
    """
    ops = classify_run(run) if run.rows("device_ops") else pl.DataFrame()
    if ops.is_empty():
        return None
    comm = ops.filter(pl.col("class_") == COMMUNICATION)
    device = (comm if comm.height else ops).get_column("device_id").mode().min()
    ops = ops.filter(pl.col("device_id") == device)
    comm = comm.filter(pl.col("device_id") == device).sort("start_ns", "device_op_id")
    begin, end = ops.select(pl.min("start_ns"), b=pl.max("end_ns")).row(0)
    work = ops.filter(pl.col("class_") == COMPUTE)
    copies = ops.filter(pl.col("class_") == COPY)
    ended = comm.select(*_BY, t="end_ns", place=pl.int_range(pl.len())).sort("t")
    last = find_latest(comm, "start_ns", ended, "t", _BY)
    anchor = take_rows(ended.select("place", "t"), last)
    spans = comm.select(
        *_BY,
        "start_ns",
        from_ns=anchor.get_column("t").fill_null(begin),
    )
    busy = {}
    for name, of in (("compute_ns", work), ("busy_ns", pl.concat([work, copies]))):
        busy[name] = measure_cover_until(spans, "start_ns", of, _BY) - measure_cover_until(
            spans, "from_ns", of, _BY
        )
    starts = work.get_column("start_ns").sort()
    count = starts.search_sorted(spans.get_column("start_ns")) - starts.search_sorted(
        spans.get_column("from_ns")
    ).cast(pl.Int64)
    rows = (
        comm.select("device_op_id", "device_id", "kind", "name", "start_ns", "end_ns")
        .join(_describe(run), on="device_op_id", how="left", maintain_order="left")
        .with_columns(
            rank=pl.lit(rank, pl.Int64),
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            anchor=anchor.get_column("place").fill_null(-1),
            segment_ns=pl.col("start_ns") - spans.get_column("from_ns"),
            compute_ns=busy["compute_ns"],
            copy_ns=busy["busy_ns"] - busy["compute_ns"],
            kernels=count.cast(pl.Int64),
        )
        .with_columns(idle_ns=pl.col("segment_ns") - busy["busy_ns"])
    )
    row = run.ask("breakdown").filter(pl.col("device_id") == device).row(0, named=True)
    parts = {k: row[k] for k in ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")}
    tail = end - int(rows.get_column("end_ns").max() or begin)  # type: ignore[arg-type]
    world = run.table("recordings").get_column("world_size").max()
    return Rank(rank, rows, begin, end, tail, parts, world)  # type: ignore[arg-type]


def _describe(run: Run) -> pl.DataFrame:
    """What the collectives are; the list of a group's ranks as its hash: it may be long."""
    described = describe_collectives(run.table("collectives"))
    known = described.get_column("members").drop_nulls().unique()
    short = {text: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in known}
    return described.with_columns(
        pl.col("members").replace_strict(short, default=None, return_dtype=pl.String)
    )
