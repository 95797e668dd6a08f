"""Chakra execution traces of one rank: nodes with durations and what each waits for.

Nodes that run on the CPU become ranges of its threads, the others operations of a device, with the
stream (attribute `tid`) that they are on. Where nodes say when they began, that is taken; else each
begins as soon as what it depends on is over, and what its thread or stream had before it, in the
order of ids: the quickest that the trace allows, which is noted.

Schema: mlcommons/chakra, schema/protobuf/et_def.proto; attributes: its PyTorch converter, and
ASTRA-sim's feeder. A file is a GlobalMetadata and Nodes, each preceded by its length.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError

IMPORTER = Importer(
    name="chakra_et",
    label="Chakra execution trace (.et)",
    # The metadata's version, or its first attribute as the PyTorch converter writes it.
    strong=(
        rb"\A[\x05-\x40]\x0a[\x03-\x0a]\d{1,3}\.\d{1,3}\.\d{1,3}(?:\x12|[\x02-\xff]{1,5}\x08)",
        rb"\A.{1,5}\x0a\x06schema",
    ),
    weak=(),
    looks_like="protobuf: a GlobalMetadata and Nodes, each preceded by its length",
    suffixes=(".et",),
    version=3,
    source="https://github.com/mlcommons/chakra/blob/main/schema/protobuf/et_def.proto",
)

_DECLARED = """
GlobalMetadata: 1 version text, 2 attr []AttributeProto
Node: 1 id uint, 2 name text, 3 type uint, 4 ctrl_deps [packed]uint, 5 data_deps [packed]uint,
    6 start_time_micros uint, 7 duration_micros uint, 10 attr []AttributeProto
AttributeProto: 1 name text, 9 int64_val int, 13 uint64_val uint, 27 bool_val bool,
    29 string_val text
"""
_SEND, _RECEIVE, _COLLECTIVE = 5, 6, 7
# CollectiveCommType.
_OPS = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast", "alltoall"),
    *("reducescatter", "reducescatter", "barrier"),
)
_MOST_US = INT64_MAX // 1000 // 4  # sums of a few of them fit into 64 bits
_COPY = re.compile(r"(?i)memcpy (\w)to(\w)|memcpy")


@dataclass(frozen=True)
class _Node:
    number: int
    name: str
    kind: int
    waits: tuple[int, ...]
    start_us: int
    duration_us: int
    on_cpu: bool
    lane: int
    told: dict[str, Any]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all nodes that are whole. Raises DamagedError where none is."""
    from sightline.core.protobuf import declare_messages

    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES)
    quality: list[Quality] = []
    messages = declare_messages(_DECLARED)
    version, nodes, broken = _read_nodes(data, messages)
    if not nodes:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete node")
    if damage or broken:
        text = f"reading stopped early: {damage or broken}"
        quality.append(Quality("truncated", "error", text))
    # The converter says of all nodes whether they are of the CPU, or of none.
    unsaid = sum("is_cpu_op" not in node.told for node in nodes)
    if 0 < unsaid < len(nodes):
        text = "nodes do not say whether they ran on the CPU: they may be in the wrong table"
        quality.append(Quality("damaged_nodes", "warning", text, unsaid))
    timed = any(node.start_us for node in nodes)
    starts = {n.number: n.start_us for n in nodes} if timed else _lay_out(nodes, quality)
    if not timed:
        text = "nodes have no times: each begins as soon as what it depends on is over"
        quality.append(Quality("times_laid_out", "warning", text, len(nodes)))
    if instants := sum(not node.duration_us for node in nodes):
        text = "nodes have no duration, or one under a microsecond: they are left out"
        quality.append(Quality("no_durations", "info", text, instants))
    rows = [_make_row(node, starts[node.number]) for node in nodes if node.number in starts]
    tables = _make_tables([row for row in rows if row["duration_us"]])
    own = {"rank_ends_name": True}  # NAME.RANK.et is what ASTRA-sim and the converter call them
    return Imported(tables, Recording("Chakra", version, clock_offset_ns=0, own=own), quality)


def _read_nodes(data: bytes, messages: Any) -> tuple[str | None, list[_Node], str | None]:
    """The schema's version, the nodes, and why reading stopped before the end, if it did."""
    from sightline.core.protobuf import DamagedMessageError, parse_message

    version, nodes, seen = None, [], set()
    try:
        for place, body in enumerate(_split_frames(data)):
            if place == 0:
                version = _read_version(parse_message(messages["GlobalMetadata"], body))
                continue
            node = _read_node(parse_message(messages["Node"], body))
            if node.number not in seen:
                seen.add(node.number)
                nodes.append(node)
    except DamagedMessageError as error:
        return version, nodes, str(error)
    return version, nodes, None


def _split_frames(data: bytes) -> Iterator[memoryview]:
    """The bytes of each message, which stands behind its length as a varint."""
    from sightline.core.protobuf import DamagedMessageError

    view, at = memoryview(data), 0
    while at < len(data):
        length = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                raise DamagedMessageError(f"no length at byte {at}")
            byte = data[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        if at + length > len(data):
            raise DamagedMessageError(f"the message at byte {at} goes beyond the file's end")
        yield view[at : at + length]
        at += length


def _read_version(message: Any) -> str | None:
    told = {attr.name: attr.string_val for attr in message.attr}
    found = message.version or told.get("schema") or None
    return None if found is None else replace_surrogates(str(found))


def _read_node(message: Any) -> _Node:
    told: dict[str, Any] = {}
    for attr in message.attr:
        for field in ("int64_val", "uint64_val", "bool_val", "string_val"):
            if attr.HasField(field):
                told[attr.name] = getattr(attr, field)
    kind = int(message.type)
    # A node that does not say is of a device where it communicates, as ASTRA-sim takes it.
    on_cpu = bool(told.get("is_cpu_op", kind < _SEND))
    lane = told.get("tid", told.get("stream", 0))
    return _Node(
        int(message.id),
        replace_surrogates(str(message.name)),
        kind,
        tuple(message.data_deps),
        min(int(message.start_time_micros), _MOST_US),
        min(int(message.duration_micros), _MOST_US),
        on_cpu,
        lane if isinstance(lane, int) and 0 <= lane <= INT64_MAX else 0,
        told,
    )


def _lay_out(nodes: list[_Node], quality: list[Quality]) -> dict[int, int]:
    """When each node can begin, µs: by what it waits for and what its lane had before, by ids.

    Nodes in a circle are left out, and counted.
    """
    known = {node.number: node for node in nodes}
    left = {n.number: {w for w in n.waits if w in known and w != n.number} for n in nodes}
    after: dict[int, list[int]] = {}
    for number, waits in left.items():
        for other in waits:
            after.setdefault(other, []).append(number)
    ready = [number for number, waits in left.items() if not waits]
    heapq.heapify(ready)
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    free: dict[tuple[bool, int], int] = {}
    while ready:
        node = known[heapq.heappop(ready)]
        lane = (node.on_cpu, node.lane)
        began = max(free.get(lane, 0), *(ends.get(w, 0) for w in node.waits), 0)
        starts[node.number], ends[node.number] = began, began + node.duration_us
        free[lane] = ends[node.number]
        if free[lane] > _MOST_US:
            break
        for other in after.get(node.number, ()):
            left[other].discard(node.number)
            if not left[other]:
                heapq.heappush(ready, other)
    if len(starts) < len(nodes):
        text = "nodes wait for each other in a circle, or for one that does, and are left out"
        quality.append(Quality("damaged_nodes", "warning", text, len(nodes) - len(starts)))
    return starts


def _make_row(node: _Node, start_us: int) -> dict[str, Any]:
    size = node.told.get("comm_size")
    whole = size if isinstance(size, int) and 0 <= size <= INT64_MAX else None
    op = None
    if not node.on_cpu and node.kind in (_SEND, _RECEIVE):
        op = "send" if node.kind == _SEND else "recv"
    elif not node.on_cpu and node.kind == _COLLECTIVE:
        number = node.told.get("comm_type")
        op = _OPS[number] if isinstance(number, int) and 0 <= number < len(_OPS) else None
    group = node.told.get("pg_name")
    return {
        "name": node.name,
        "start_ns": start_us * 1000,
        "end_ns": (start_us + node.duration_us) * 1000,
        "duration_us": node.duration_us,
        "on_cpu": node.on_cpu,
        "lane": node.lane,
        "op": op,
        "bytes": whole,
        "group": None if group in (None, "") else replace_surrogates(str(group)),
    }


_ROWS = {
    "name": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "on_cpu": pl.Boolean,
    "lane": pl.Int64,
    "op": pl.String,
    "bytes": pl.Int64,
    "group": pl.String,
}


def _make_tables(rows: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    """Ranges of threads, operations of the device, and what its communication means."""
    kept = [{name: row[name] for name in _ROWS} for row in rows]
    frame = pl.DataFrame(kept, schema=_ROWS).sort("start_ns", "end_ns", maintain_order=True)
    host = frame.filter("on_cpu").select(
        "name", "start_ns", "end_ns", pid=pl.lit(0, pl.Int64), tid="lane", layer=pl.lit("op")
    )
    is_copy = pl.col("name").str.contains(_COPY.pattern)
    device = frame.filter(~pl.col("on_cpu")).with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        device_id=pl.lit(0, pl.Int64),
        kind=pl.when(is_copy)
        .then(pl.lit("memcpy"))
        .when(pl.col("name").str.contains("(?i)^memset"))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel")),
    )
    meant = device.filter(pl.col("op").is_not_null()).select(
        "device_op_id", "op", "group", bytes_in="bytes", bytes_out="bytes"
    )
    return {
        "host_ops": nest_ranges(host),
        "device_ops": device.select(
            "device_op_id", "device_id", "kind", "name", "start_ns", "end_ns", stream_id="lane"
        ),
        "collectives": meant,
    }
