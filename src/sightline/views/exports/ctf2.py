"""A CTF 2 trace: for babeltrace2 from 2.1 on, Trace Compass, and every reader of CTF2-SPEC-2.0.

A folder for each rank, with a stream for each table. An event is a row; its fields are named as the
table's columns are, its time is the row's begin, and where the row is a range its length is the
field `duration`. A column in which values are missing has a flag before each value, `has_COLUMN`;
one that has none is left out. sightline reads its own traces back (mappings/sightline.yaml).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.model.tables import load_table
from sightline.version import __version__
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="ctf2",
    label="CTF 2, a folder per rank: babeltrace2 2.1, Trace Compass",
    suffix="-ctf2",
    loses="samples, hardware counters of kernels, memory, ids but correlation ids",
)
# A row's moment, and its end where it is a range.
_TABLES = {
    "host_ops": ("start_ns", "end_ns"),
    "device_ops": ("start_ns", "end_ns"),
    "interrupts": ("start_ns", "end_ns"),
    "disk_requests": ("start_ns", "end_ns"),
    "sched_events": ("time_ns", None),
    "wakeups": ("time_ns", None),
    "packets": ("time_ns", None),
    "counters": ("time_ns", None),
    "page_faults": ("time_ns", None),
    "threads": (None, None),
}
# A reader computes the nesting anew.
_COMPUTED = ("depth", "rank", "recording_id")
_MAGIC = 0xC1FC1FC1  # of a packet (CTF2-SPEC-2.0, 6.1)
_PACKET_BYTES = 1 << 20
_LITTLE = {"byte-order": "little-endian", "alignment": 8}
_UNSIGNED = "fixed-length-unsigned-integer"
_PACKS = {"fixed-length-signed-integer": "<q", "fixed-length-floating-point-number": "<d"}
_HEAD = struct.Struct("<IQ")  # magic, class of the stream
_CONTEXT = struct.Struct("<QQQQ")  # total and content length in bits, begin and end


@dataclass(frozen=True)
class FieldPlan:
    """A column as a field: its class without the byte order, and whether values may be missing."""

    name: str
    kind: str
    has_nulls: bool


@dataclass(frozen=True)
class Stream:
    """The events of one table: their fields, and the stream's bytes."""

    table: str
    fields: tuple[FieldPlan, ...]
    data: bytes


def write(run: Run, target: Path) -> list[Path]:
    """Write a trace for each rank: `metadata`, and a file for each table that has rows."""
    frames = {
        name: run.table(name).pipe(_prepare, name, *moments)
        for name, moments in _TABLES.items()
        if run.rows(name)
    }
    ranks = sorted({rank for frame in frames.values() for rank in frame["rank"].unique()})
    written = []
    for rank in ranks:
        mine = {name: frame.filter(pl.col("rank") == rank) for name, frame in frames.items()}
        streams, origin = pack_streams({name: f for name, f in mine.items() if not f.is_empty()})
        folder = target / f"rank{rank}" if len(ranks) > 1 else target
        metadata = write_metadata(streams, origin, rank if len(ranks) > 1 else None)
        written.append(put(folder / "metadata", metadata.encode()))
        written += [put(folder / stream.table, stream.data) for stream in streams]
    return written


def _prepare(frame: pl.DataFrame, name: str, begin: str | None, end: str | None) -> pl.DataFrame:
    """The rows with `at_ns`, `duration` where they are ranges, and the columns that are kept."""
    declared = load_table(name).stored
    kept = [
        c.name
        for c in declared
        if not (c.is_id or c.joins or c.moment)
        and c.name not in _COMPUTED
        and not isinstance(c.dtype, pl.List)
        and frame.get_column(c.name).null_count() < frame.height
    ]
    at = pl.lit(None, pl.Int64) if begin is None else pl.col(begin)
    columns: list[pl.Expr | str] = ["rank", at.alias("at_ns"), *kept]
    if begin is not None and end is not None:
        columns.insert(2, (pl.col(end) - pl.col(begin)).alias("duration"))
    return frame.select(columns).sort("at_ns", maintain_order=True)


def pack_streams(frames: dict[str, pl.DataFrame]) -> tuple[list[Stream], int]:
    """The streams of a rank, and the ns since 1970 at which their clock began."""
    moments = [frame.get_column("at_ns").min() for frame in frames.values()]
    known = [moment for moment in moments if isinstance(moment, int)]
    origin = min(known, default=0)
    streams = []
    for number, (table, frame) in enumerate(frames.items()):
        times = frame.get_column("at_ns").fill_null(origin) - origin
        values = frame.drop("rank", "at_ns")
        fields = tuple(_plan_field(column) for column in values.get_columns())
        events = _pack_events(times, values, fields)
        data = b"".join(_pack_packets(events, number))
        streams.append(Stream(table, fields, data))
    return streams, origin


def _plan_field(column: pl.Series) -> FieldPlan:
    if column.dtype == pl.Float64:
        kind = "fixed-length-floating-point-number"
    elif column.dtype.is_integer() or column.dtype == pl.Boolean:
        kind = "fixed-length-signed-integer"
    else:
        kind = "null-terminated-string"
    return FieldPlan(column.name, kind, column.null_count() > 0)


def _pack_events(
    times: pl.Series, values: pl.DataFrame, fields: tuple[FieldPlan, ...]
) -> Iterator[tuple[int, bytes]]:
    """Time and bytes of each event."""
    columns = [_pack_values(values.get_column(field.name), field) for field in fields]
    for at, *packed in zip(times, *columns, strict=True):
        yield at, struct.pack("<Q", at) + b"".join(packed)


def _pack_values(column: pl.Series, field: FieldPlan) -> Iterator[bytes]:
    some, none = (b"\1", b"\0") if field.has_nulls else (b"", b"")
    pack = _PACKS.get(field.kind)
    if pack is None:
        # A text ends with a zero: one inside of it would cut it.
        for text in column.cast(pl.String):
            yield none if text is None else some + text.replace("\0", "\ufffd").encode() + b"\0"
        return
    packer = struct.Struct(pack)
    for value in column:
        yield none if value is None else some + packer.pack(value)


def _pack_packets(events: Iterable[tuple[int, bytes]], number: int) -> Iterator[bytes]:
    """Packets of about a MiB, each with its size, and the times of its first and last event."""
    packed: list[bytes] = []
    size, begin, end = 0, 0, 0
    for at, event in events:
        if size >= _PACKET_BYTES:
            yield _pack_packet(packed, number, begin, end)
            packed, size = [], 0
        begin, end = (begin if packed else at), at
        packed.append(event)
        size += len(event)
    if packed:
        yield _pack_packet(packed, number, begin, end)


def _pack_packet(events: list[bytes], number: int, begin: int, end: int) -> bytes:
    body = b"".join(events)
    bits = 8 * (_HEAD.size + _CONTEXT.size + len(body))
    return _HEAD.pack(_MAGIC, number) + _CONTEXT.pack(bits, bits, begin, end) + body


def write_metadata(streams: Iterable[Stream], origin_ns: int, rank: int | None) -> str:
    """The JSON text sequence that declares the streams (CTF2-SPEC-2.0, 5)."""
    seconds, cycles = divmod(origin_ns, 1_000_000_000)
    environment: dict[str, Any] = {"tracer_name": "sightline", "sightline_version": __version__}
    if rank is not None:
        environment["rank"] = rank
    header = [
        _number("magic", 32, "packet-magic-number"),
        _number("stream", 64, "data-stream-class-id"),
    ]
    fragments: list[dict[str, Any]] = [
        {"type": "preamble", "version": 2},
        {
            "type": "trace-class",
            "environment": environment,
            "packet-header-field-class": _structure(header),
        },
        {
            "type": "clock-class",
            "id": "clock",
            "name": "clock",
            "frequency": 1_000_000_000,
            "origin": "unix-epoch",
            "offset-from-origin": {"seconds": seconds, "cycles": cycles},
        },
    ]
    context = [
        _number("packet_size", 64, "packet-total-length"),
        _number("content_size", 64, "packet-content-length"),
        _number("begin", 64, "default-clock-timestamp"),
        _number("end", 64, "packet-end-default-clock-timestamp"),
    ]
    for number, stream in enumerate(streams):
        fragments += [
            {
                "type": "data-stream-class",
                "id": number,
                "name": stream.table,
                "default-clock-class-id": "clock",
                "packet-context-field-class": _structure(context),
                "event-record-header-field-class": _structure(
                    [_number("time", 64, "default-clock-timestamp")]
                ),
            },
            {
                "type": "event-record-class",
                "data-stream-class-id": number,
                "name": f"sightline:{stream.table}",
                "payload-field-class": _structure(
                    [member for field in stream.fields for member in _declare(field)]
                ),
            },
        ]
    return "".join(f"\x1e{json.dumps(fragment)}\n" for fragment in fragments)


def _structure(members: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "structure", "member-classes": members}


def _number(name: str, length: int, role: str) -> dict[str, Any]:
    kind = {"type": _UNSIGNED, "length": length, "roles": [role], **_LITTLE}
    return {"name": name, "field-class": kind}


def _declare(field: FieldPlan) -> Iterator[dict[str, Any]]:
    kind: dict[str, Any] = {"type": field.kind}
    if field.kind in _PACKS:
        kind |= {"length": 64, **_LITTLE}
    if field.has_nulls:
        flag = {"type": "fixed-length-boolean", "length": 8, **_LITTLE}
        yield {"name": f"has_{field.name}", "field-class": flag}
        place = {"path": [f"has_{field.name}"], "origin": "event-record-payload"}
        kind = {"type": "optional", "selector-field-location": place, "field-class": kind}
    yield {"name": field.name, "field-class": kind}
