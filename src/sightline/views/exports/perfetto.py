"""Perfetto's protobuf, for ui.perfetto.dev and trace_processor: nothing that overlaps is lost.

Perfetto drops a slice that crosses another one on its track without a word. So operations of a
stream that overlap, and host ranges that cross, get tracks of their own with the stream's or
thread's name, which the viewer shows as one. Launches are flows from the call to the operation;
counters are counter tracks; shapes, launch shapes and stacks are arguments. Each rank is a process,
since the viewer and SQL tell tracks apart by theirs.

Fields and numbers: Perfetto's protos (protos/perfetto/trace: trace_packet.proto,
track_event/track_event.proto, track_descriptor.proto, process_descriptor.proto,
counter_descriptor.proto, interned_data.proto), some fields of a format that grows only by new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.algebra.lanes import assign_lanes
from sightline.core.model.run import Run
from sightline.core.protobuf import declare_messages
from sightline.timeline.run_labels import label_run_kernels
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="perfetto",
    label="Perfetto protobuf: flows, counters, overlapping kernels kept",
    suffix=".perfetto-trace",
    loses="samples, hardware counters of kernels",
)

_MESSAGES = declare_messages(
    """
Trace: 1 packet []TracePacket
TracePacket: 8 timestamp int, 10 trusted_packet_sequence_id uint, 11 track_event TrackEvent,
    12 interned_data InternedData, 13 sequence_flags uint, 60 track_descriptor TrackDescriptor
TrackDescriptor: 1 uuid uint, 2 name text, 3 process ProcessDescriptor, 5 parent_uuid uint,
    8 counter CounterDescriptor
ProcessDescriptor: 1 pid int, 6 process_name text
CounterDescriptor: 6 unit_name text
TrackEvent: 4 debug_annotations []DebugAnnotation, 9 type uint, 10 name_iid uint,
    11 track_uuid uint, 44 double_counter_value double, 47 flow_ids []fixed64,
    48 terminating_flow_ids []fixed64
DebugAnnotation: 1 name_iid uint, 4 int_value int, 17 string_value_iid uint
InternedData: 2 event_names []InternedText, 3 debug_annotation_names []InternedText,
    29 debug_annotation_string_values []InternedText
InternedText: 1 iid uint, 2 text text
"""
)
_Trace, _InternedData = _MESSAGES["Trace"], _MESSAGES["InternedData"]
_TrackDescriptor = _MESSAGES["TrackDescriptor"]
# TrackEvent.Type
_BEGIN, _END, _COUNTER = 1, 2, 4
# TracePacket.SequenceFlags: state cleared; needs it
_CLEARED, _NEEDS = 1, 2
_SEQUENCE = 1
_MAX_PID = 2**31 - 1
_DEVICE_ARGS = (
    "full_name",
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


class _Names:
    """Texts that are written once and then called by number."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}
        self.data = _InternedData()

    def number(self, field: str, text: str) -> int:
        """The text's number in a field of InternedData."""
        key = (field, text)
        if key not in self.known:
            self.known[key] = len(self.known) + 1
            getattr(self.data, field).add(iid=self.known[key], text=text)
        return self.known[key]


def write(run: Run, target: Path) -> list[Path]:
    """Write one trace with all ranks."""
    names = _Names()
    ranks = _describe_ranks(run)
    packets = [*_device(run, names), *_ranges(run, names), *_host(run, names), *_counters(run)]
    # Readers sort packets by time, but take texts in the order of the file: all of them first.
    first = _packet(sequence_flags=_CLEARED, interned_data=names.data)
    return [put(target, b"".join([first, *ranks, *packets]))]


def _describe_ranks(run: Run) -> list[bytes]:
    """A process for each rank: its own number where it is the only one of that number."""
    ranks = run.table("recordings").get_column("rank").unique().sort().to_list()
    seen: dict[int, set[int]] = {rank: set() for rank in ranks}
    for table in ("host_ops", "device_ops"):
        pids = run.table(table).select("rank", "pid").drop_nulls().unique()
        for rank, pid in pids.rows():
            seen.setdefault(rank, set()).add(pid)
    own = {rank: min(pids) for rank, pids in seen.items() if len(pids) == 1}
    fits = all(0 < pid <= _MAX_PID for pid in own.values())
    if len(own) < len(seen) or len(set(own.values())) < len(own) or not fits:
        own = {rank: rank + 1 for rank in seen}  # 0 is not a process
    return [
        _packet(
            track_descriptor=_TrackDescriptor(
                uuid=_rank_track(rank), process={"pid": pid, "process_name": f"rank {rank}"}
            )
        )
        for rank, pid in own.items()
    ]


def _rank_track(rank: int) -> int:
    return rank + 1


def _packet(**fields: Any) -> bytes:
    """A trace of one packet: traces that are written one after the other are one trace."""
    trace = _Trace()
    trace.packet.add(trusted_packet_sequence_id=_SEQUENCE, **fields)
    packed: bytes = trace.SerializeToString()
    return packed


class _Places:
    """Tracks below those of ranks, each described when it is first needed."""

    def __init__(self, start: int) -> None:
        self.last = start
        self.known: dict[tuple[Any, ...], int] = {}

    def of(self, rank: int, path: tuple[str, ...], lane: int, out: list[bytes]) -> int:
        """The track of a path of names; lanes of one path are siblings of equal name."""
        key = (rank, *path, lane)
        if key not in self.known:
            parent = self.of(rank, path[:-1], 0, out) if len(path) > 1 else _rank_track(rank)
            self.last += 1
            self.known[key] = self.last
            track = _TrackDescriptor(uuid=self.last, name=path[-1], parent_uuid=parent)
            out.append(_packet(track_descriptor=track))
        return self.known[key]


def _slice(
    row: dict[str, Any],
    track: int,
    columns: Iterable[str],
    names: _Names,
    flows: dict[str, list[int]],
) -> tuple[bytes, bytes]:
    """The packets of a slice's begin, with the columns as arguments, and of its end."""
    begin, end = _Trace(), _Trace()
    packet = begin.packet.add(
        timestamp=row["start_ns"], trusted_packet_sequence_id=_SEQUENCE, sequence_flags=_NEEDS
    )
    event = packet.track_event
    event.type, event.track_uuid = _BEGIN, track
    for column in columns:
        value = row[column]
        if value is None:
            continue
        argument = event.debug_annotations.add(
            name_iid=names.number("debug_annotation_names", column)
        )
        if isinstance(value, int):
            argument.int_value = value
        else:
            argument.string_value_iid = names.number("debug_annotation_string_values", value)
    event.name_iid = names.number("event_names", row["name"])
    for field, numbers in flows.items():
        getattr(event, field).extend(numbers)
    packet = end.packet.add(timestamp=row["end_ns"], trusted_packet_sequence_id=_SEQUENCE)
    packet.track_event.type, packet.track_event.track_uuid = _END, track
    return begin.SerializeToString(), end.SerializeToString()


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


def _device(run: Run, names: _Names) -> Iterator[bytes]:
    ops = run.table("device_ops")
    if ops.is_empty():
        return
    places = _Places(1 << 20)
    by = ["rank", "device_id", "pid", "context_id", "stream_id"]
    numbered = ops.with_columns(track=pl.struct(by).rank("dense").cast(pl.Int64), level=pl.lit(0))
    slices: list[tuple[int, int, int, bytes, bytes]] = []
    out: list[bytes] = []
    labels = label_run_kernels(run)
    for row in assign_lanes(numbered).iter_rows(named=True):
        # The label is what fits a slice; the name is an argument of it.
        row["full_name"], row["name"] = row["name"], labels.get(row["name"], row["name"])
        # `context_id` stays out of the name: the viewer would part what belongs together.
        path = (f"GPU {row['device_id']}", f"stream {row['stream_id']}")
        context = row["context_id"] or 0
        track = places.of(row["rank"], path, row["lane"] + (context << 20), out)
        launch = row["launch_id"]
        flows = {} if launch is None else {"terminating_flow_ids": [launch + 1]}
        packets = _slice(row, track, _DEVICE_ARGS, names, flows)
        slices.append((row["start_ns"], row["end_ns"], 0, *packets))
    yield from out
    yield from _in_order(slices)


def _ranges(run: Run, names: _Names) -> Iterator[bytes]:
    """Annotations on the device's timeline, on a track of their own beside the stream's."""
    ranges = run.table("device_ranges")
    if ranges.is_empty():
        return
    by = ["rank", "device_id", "stream_id"]
    numbered = ranges.with_columns(track=pl.struct(by).rank("dense").cast(pl.Int64))
    placed = assign_lanes(numbered.with_columns(level=pl.lit(0)))
    places = _Places(1 << 25)
    slices: list[tuple[int, int, int, bytes, bytes]] = []
    out: list[bytes] = []
    for row in placed.iter_rows(named=True):
        stream = "" if row["stream_id"] is None else f" of stream {row['stream_id']}"
        path = (f"GPU {row['device_id'] or 0}", f"annotations{stream}")
        track = places.of(row["rank"], path, row["lane"], out)
        packets = _slice(row, track, (), names, {})
        slices.append((row["start_ns"], row["end_ns"], 0, *packets))
    yield from out
    yield from _in_order(slices)


def _host(run: Run, names: _Names) -> Iterator[bytes]:
    ops = run.table("host_ops")
    if ops.is_empty():
        return
    launching = set(
        run.table("device_ops", ["launch_id"]).get_column("launch_id").drop_nulls().to_list()
    )
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
        track = places.of(row["rank"], (f"process {row['pid']}", thread), lane, out)
        number = row["host_op_id"]
        flows = {"flow_ids": [number + 1]} if number in launching else {}
        packets = _slice(row, track, _HOST_ARGS, names, flows)
        slices.append((row["start_ns"], row["end_ns"], row["depth"] or 0, *packets))
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
    return assign_lanes(moved)


def _counters(run: Run) -> Iterator[bytes]:
    rows = run.table("counters").drop_nulls("value")
    places: dict[tuple[Any, ...], int] = {}
    for row in rows.iter_rows(named=True):
        key = (row["rank"], row["device_id"], row["source"], row["metric"])
        if key not in places:
            places[key] = (1 << 40) + len(places)
            where = None if row["device_id"] is None else f"GPU {row['device_id']}"
            title = " · ".join(part for part in (row["metric"], where, row["source"]) if part)
            track = _TrackDescriptor(
                uuid=places[key], name=title, parent_uuid=_rank_track(row["rank"])
            )
            track.counter.SetInParent()
            if row["unit"]:
                track.counter.unit_name = row["unit"]
            yield _packet(track_descriptor=track)
        event = {"type": _COUNTER, "track_uuid": places[key], "double_counter_value": row["value"]}
        yield _packet(timestamp=row["time_ns"], track_event=event)
