"""The MPI calls of one rank, as `sightline run` records them through MPI's profiling interface.

core/model/mpi_file.py describes the format. Nothing in it is trusted: what is no record of a call
is left out and counted.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model import mpi_file as f
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.model.tables import load_table
from sightline.errors import DamagedError

IMPORTER = Importer(
    name="sightline_mpi",
    label="MPI calls recorded by sightline",
    strong=(rb"^SIGHTLINE-MPI\n",),
    weak=(),
    looks_like="a file that starts with SIGHTLINE-MPI",
    suffixes=(f.SUFFIX,),
    version=2,
    source="src/sightline/core/model/mpi_file.py",
)

_LATEST_NS = 1 << 62
# Clocks that came apart by more were set while the program ran (as in sightline_events).
_STEPPED_NS = 1_000_000
_MESSAGES = {
    f.SEND: ("send", "whole"),
    f.RECEIVE: ("receive", "whole"),
    f.POST_SEND: ("send", "posted"),
    f.POST_RECEIVE: ("receive", "posted"),
    f.COMPLETED: (None, "completed"),
}
_COLUMNS = {c.name: c.dtype for c in load_table("mpi_events").stored}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all whole records. Raises DamagedError where not even the header is whole."""
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES)
    if len(data) < f.HEADER_BYTES:
        raise DamagedError(f"cannot read {source.given}", why="it ends inside its header")
    _, version, pid, rank, size, begin, wall, end, end_wall, record, ended, lost = (
        f.HEADER.unpack_from(data)
    )
    if version != f.VERSION or record != f.RECORD_BYTES:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has version {version}, this sightline reads {f.VERSION}",
        )
    offset = wall - begin
    rows, bad = _list_records(data)
    quality = _note(damage, bad, bool(ended), lost, end_wall - end - offset if ended else 0)
    if (len(data) - f.HEADER_BYTES) % f.RECORD_BYTES:
        quality.append(Quality("truncated", "error", "the file ends inside a record", 1))
    rows = rows.with_columns(pl.col("start_ns", "end_ns") + offset)
    host, events = _split(rows, pid, rank if rank >= 0 else None)
    edges = host.select(pl.min("start_ns"), pl.max("end_ns")).row(0) if host.height else (None,) * 2
    recording = Recording(
        tool="sightline MPI",
        rank=rank if 0 <= rank < max(size, 1) else None,
        world_size=size if size > 0 else None,
        clock_offset_ns=offset,
        start_ns=edges[0],
        end_ns=edges[1],
        layers=("mpi",),
    )
    tables = {
        "host_ops": host,
        "mpi_events": events,
        "threads": host.select("pid", "tid").unique().sort("pid", "tid"),
    }
    return Imported(tables, recording, quality)


def _list_records(data: bytes) -> tuple[pl.DataFrame, int]:
    """The records as columns with the routines' names, and how many are none."""
    import numpy as np  # all commands ask what recognises a file

    count = (len(data) - f.HEADER_BYTES) // f.RECORD_BYTES
    kept = np.frombuffer(data, np.dtype(list(f.FIELDS)), count, f.HEADER_BYTES)
    rows = pl.DataFrame({n: pl.Series(kept[n].astype(np.int64)) for n, _ in f.FIELDS})
    names = data[f.NAMES_AT : f.HEADER_BYTES].split(b"\0", 1)[0].decode("ascii", "replace").split()
    is_nowhere = pl.col("group") == f.NO_GROUP
    is_whole = (
        (pl.col("start_ns") > 0)
        & (pl.col("end_ns") >= pl.col("start_ns"))
        & (pl.col("end_ns") < _LATEST_NS)
        & (pl.col("what") <= f.COLLECTIVE)
        & (pl.col("routine") < len(names))
        # A call that communicates nothing has neither of these.
        & ((pl.col("what") != f.CALL) | ((pl.col("request") == f.NONE) & is_nowhere))
    )
    whole = rows.filter(is_whole)
    known = pl.Series(names, dtype=pl.String)
    return whole.with_columns(name=known.gather(whole.get_column("routine"))), count - whole.height


def _split(rows: pl.DataFrame, pid: int, rank: int | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls as host_ops, and what each communicates."""
    place = ["thread", "start_ns", "end_ns", "name"]
    rows = rows.with_row_index("record")
    calls = rows.unique(place, keep="first", maintain_order=True)
    host = nest_ranges(
        calls.select(
            "record",
            pid=pl.lit(pid, pl.Int64),
            tid="thread",
            layer=pl.lit("mpi"),
            name="name",
            category=pl.lit("mpi"),
            start_ns="start_ns",
            end_ns="end_ns",
        )
    )
    first = calls.select(*place, call="record")
    ids = host.select("host_op_id", call="record")
    told = rows.filter(pl.col("what") != f.CALL)
    placed = told.join(first, on=place, maintain_order="left").join(
        ids, on="call", maintain_order="left"
    )
    return host.drop("record"), _describe(placed, rank).sort("host_op_id", maintain_order=True)


def _describe(rows: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    what = pl.col("what")
    is_collective = what == f.COLLECTIVE

    def know(name: str) -> pl.Expr:
        return pl.when(pl.col(name) != f.NONE).then(name)

    def tell(nth: int) -> pl.Expr:
        words = {kind: text[nth] for kind, text in _MESSAGES.items() if text[nth] is not None}
        return what.replace_strict(words, default=None, return_dtype=pl.String)

    known = pl.col("group") != f.NO_GROUP
    # Of a receive from any rank or with any tag, which are negative, nobody knows whose it is.
    peer, tag, peer_rank = (
        pl.when(pl.col(name) >= 0).then(name) for name in ("peer", "tag", "peer_rank")
    )
    found = rows.select(
        "host_op_id",
        kind=pl.when(is_collective)
        .then(pl.lit("collective"))
        .when(what == f.COMPLETED)
        .then(pl.lit("start_wait"))
        .otherwise(pl.lit("p2p")),
        direction=tell(0),
        stage=tell(1),
        mpi_rank=pl.lit(rank, pl.Int64),
        tag=tag,
        peer=peer,
        peer_rank=peer_rank,
        root=know("root"),
        root_rank=know("root_rank"),
        bytes=pl.when(~is_collective).then(know("bytes")),
        bytes_sent=pl.when(is_collective).then(know("bytes")),
        bytes_received=pl.when(is_collective).then(know("received")),
        communicator=pl.when(known).then("group"),
        group=pl.when(pl.col("group") == 0)
        .then(pl.lit("world"))
        .when(known)
        .then(pl.format("communicator {}", "group")),
        group_size=know("group_size"),
        request=know("request"),
    )
    return found.select(
        pl.col(name).cast(dtype) for name, dtype in _COLUMNS.items() if name in found
    )


def _note(damage: Any, bad: int, ended: bool, lost: int, drift: int) -> list[Quality]:
    notes = []
    if damage:
        notes.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
    if bad:
        text = "records of MPI calls are damaged and left out"
        notes.append(Quality("damaged_events", "warning", text, bad))
    if not ended:
        text = "the process did not exit normally: its last second of MPI calls may be missing"
        notes.append(Quality("process_killed", "warning", text))
    if lost > 0:
        text = "MPI calls were lost: the file could not grow"
        remedy = "Record to a disk with room:  sightline run -o FOLDER"
        notes.append(Quality("events_lost", "error", text, lost, remedy))
    if abs(drift) > _STEPPED_NS:
        text = "the wall clock was set while the program ran; MPI calls keep the one of their start"
        notes.append(Quality("clock_set", "warning", text))
    return notes
