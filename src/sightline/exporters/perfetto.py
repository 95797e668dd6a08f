"""Perfetto's protobuf, for ui.perfetto.dev and trace_processor: nothing that overlaps is lost.

Perfetto drops a slice that crosses another one on its track without a word. So operations of a
stream that overlap, and host ranges that cross, get tracks of their own with the stream's or
thread's name, which the viewer shows as one. Launches are flows from the call to the operation;
counters are counter tracks; shapes, launch shapes and stacks are arguments.

Written by hand from Perfetto's protos (protos/perfetto/trace: trace_packet.proto,
track_event/track_event.proto, track_descriptor.proto, counter_descriptor.proto,
interned_data.proto): a dozen fields of a format that grows only by new ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sightline.algebra.lanes import in_lanes
from sightline.exporters._exporter import Exporter, put
from sightline.model.run import Run

EXPORTER = Exporter(
    name="perfetto",
    label="Perfetto protobuf: flows, counters, overlapping kernels kept",
    suffix=".perfetto-trace",
    loses="samples, hardware counters of kernels",
)

# TrackEvent.Type
_BEGIN, _END, _COUNTER = 1, 2, 4
# TracePacket.SequenceFlags: state cleared; needs it
_CLEARED, _NEEDS = 1, 2
_SEQUENCE = 1
_DEVICE_ARGS = (
    "kind",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers_per_thread",
    "shared_bytes",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "bytes",
    "copy_kind",
    "correlation_id",
)
_HOST_ARGS = ("layer", "input_shapes", "input_types", "stack", "correlation_id")


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF  # negative int64 are written as two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | bytearray) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode("utf-8", "replace"))


class _Names:
    """Texts that are written once and then called by number."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], int] = {}
        self.entries = bytearray()

    def number(self, field: int, text: str) -> int:
        """`field`: of InternedData, 2 event names, 3 names of arguments, 29 texts of arguments."""
        key = (field, text)
        if key not in self.known:
            self.known[key] = len(self.known) + 1
            entry = _number(1, self.known[key]) + _text(2, text)
            self.entries += _bytes(field, entry)
        return self.known[key]


def write(run: Run, target: Path) -> list[Path]:
    """Write one trace with all ranks."""
    names = _Names()
    packets = [*_device(run, names), *_host(run, names), *_counters(run)]
    # Readers sort packets by time, but take texts in the order of the file: all of them first.
    first = _packet(_number(13, _CLEARED) + _bytes(12, names.entries))
    return [put(target, b"".join([first, *packets]))]


def _packet(content: bytes) -> bytes:
    return _bytes(1, content + _number(10, _SEQUENCE))


def _track(uuid: int, parent: int | None, name: str, *, extra: bytes = b"") -> bytes:
    inside = _number(1, uuid) + _text(2, name)
    if parent is not None:
        inside += _number(5, parent)
    return _packet(_bytes(60, inside + extra))


class _Places:
    """Tracks, each described when it is first needed."""

    def __init__(self, start: int) -> None:
        self.last = start
        self.known: dict[tuple[Any, ...], int] = {}

    def of(self, path: tuple[str, ...], lane: int, out: list[bytes]) -> int:
        """The track of a path of names; lanes of one path are siblings of equal name."""
        key = (*path, lane)
        if key not in self.known:
            parent = self.of(path[:-1], 0, out) if len(path) > 1 else None
            self.last += 1
            self.known[key] = self.last
            out.append(_track(self.last, parent, path[-1]))
        return self.known[key]


def _args(row: dict[str, Any], columns: Iterable[str], names: _Names) -> bytes:
    out = b""
    for column in columns:
        value = row[column]
        if value is None:
            continue
        entry = _number(1, names.number(3, column))
        entry += (
            _number(4, value) if isinstance(value, int) else _number(17, names.number(29, value))
        )
        out += _bytes(4, entry)
    return out


def _slice(row: dict[str, Any], track: int, extra: bytes, names: _Names) -> tuple[bytes, bytes]:
    """The packets of a slice's begin and end."""
    event = _number(9, _BEGIN) + _number(11, track) + _number(10, names.number(2, row["name"]))
    begin = _number(8, row["start_ns"]) + _number(13, _NEEDS)
    end = _bytes(11, _number(9, _END) + _number(11, track))
    return (
        _packet(begin + _bytes(11, event + extra)),
        _packet(_number(8, row["end_ns"]) + end),
    )


def _in_order(slices: list[tuple[int, int, int, bytes, bytes]]) -> Iterator[bytes]:
    """Begin and end packets of (start, end, depth, begin, end) in order of time and nesting.

    At one moment, what ends there ends before what begins; the inner ends first.
    """
    moments = []
    for start, end, depth, begin, finish in slices:
        if start == end:
            moments.append((start, 1, depth, begin + finish))
        else:
            moments.append((start, 1, depth, begin))
            moments.append((end, 0, -depth, finish))
    moments.sort(key=lambda m: m[:3])
    return (m[3] for m in moments)


def _flow(field: int, number: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", number & 0xFFFFFFFFFFFFFFFF)


def _device(run: Run, names: _Names) -> Iterator[bytes]:
    ops = run.table("device_ops")
    if ops.is_empty():
        return
    places = _Places(1 << 20)
    by = ["rank", "device_id", "pid", "context_id", "stream_id"]
    numbered = ops.with_columns(track=pl.struct(by).rank("dense").cast(pl.Int64), level=pl.lit(0))
    slices: list[tuple[int, int, int, bytes, bytes]] = []
    out: list[bytes] = []
    for row in in_lanes(numbered).iter_rows(named=True):
        # `context_id` stays out of the name: the viewer would part what belongs together.
        path = (f"rank {row['rank']}", f"GPU {row['device_id']}", f"stream {row['stream_id']}")
        context = row["context_id"] or 0
        track = places.of(path, row["lane"] + (context << 20), out)
        extra = _args(row, _DEVICE_ARGS, names)
        if row["launch_id"] is not None:
            extra += _flow(48, row["launch_id"] + 1)
        slices.append((row["start_ns"], row["end_ns"], 0, *_slice(row, track, extra, names)))
    yield from out
    yield from _in_order(slices)


def _host(run: Run, names: _Names) -> Iterator[bytes]:
    ops = run.table("host_ops")
    if ops.is_empty():
        return
    launching = set(run.table("device_ops").get_column("launch_id").drop_nulls().to_list())
    crossing = _crossing(ops)
    places = _Places(1 << 30)
    slices: list[tuple[int, int, int, bytes, bytes]] = []
    out: list[bytes] = []
    named = {
        (t["rank"], t["pid"], t["tid"]): t["thread_name"]
        for t in run.table("threads").iter_rows(named=True)
    }
    lanes = crossing.select("host_op_id", "lane").rows()
    lane_of = dict(lanes)
    for row in ops.iter_rows(named=True):
        name = named.get((row["rank"], row["pid"], row["tid"]))
        thread = f"thread {row['tid']}" + (f" {name}" if name else "")
        lane = lane_of.get(row["host_op_id"], -1) + 1
        track = places.of((f"rank {row['rank']}", f"process {row['pid']}", thread), lane, out)
        extra = _args(row, _HOST_ARGS, names)
        if row["host_op_id"] in launching:
            extra += _flow(47, row["host_op_id"] + 1)
        slices.append(
            (row["start_ns"], row["end_ns"], row["depth"] or 0, *_slice(row, track, extra, names))
        )
    yield from out
    yield from _in_order(slices)


def _crossing(ops: pl.DataFrame) -> pl.DataFrame:
    """Ranges that reach beyond the one around them, with all below them, each with a lane."""
    outer = ops.select(parent_id="host_op_id", _outer_end="end_ns")
    roots = ops.join(outer, on="parent_id").filter(pl.col("end_ns") > pl.col("_outer_end"))
    inside = (
        roots.select(host_op_id=pl.int_ranges("host_op_id", "subtree_end_id"))
        .explode("host_op_id")
        .drop_nulls()
        .unique()
    )
    moved = ops.join(inside, on="host_op_id", how="semi").with_columns(
        track=pl.struct("rank", "pid", "tid").rank("dense").cast(pl.Int64), level=pl.col("depth")
    )
    return in_lanes(moved)


def _counters(run: Run) -> Iterator[bytes]:
    rows = run.table("counters").drop_nulls("value")
    places: dict[tuple[Any, ...], int] = {}
    for row in rows.iter_rows(named=True):
        key = (row["rank"], row["device_id"], row["source"], row["metric"])
        if key not in places:
            places[key] = (1 << 40) + len(places)
            where = "" if row["device_id"] is None else f" GPU {row['device_id']}"
            title = f"{row['metric']}{where}{' ' + row['source'] if row['source'] else ''}"
            unit = _text(6, row["unit"]) if row["unit"] else b""
            yield _track(places[key], None, f"rank {row['rank']} {title}", extra=_bytes(8, unit))
        value = _varint(44 << 3 | 1) + struct.pack("<d", row["value"])
        event = _number(9, _COUNTER) + _number(11, places[key]) + value
        yield _packet(_number(8, row["time_ns"]) + _bytes(11, event))
