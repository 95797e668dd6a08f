"""Chakra execution traces, one file for each rank: what ASTRA-sim replays on a simulated network.

Each device operation is a node behind the operation before it on its stream and the one of another
stream that it waited for (`sightline stats dependencies`). Time between those and its start, which
is the host's, is a node of its own, on the CPU: so a replay in which collectives take as long as
recorded takes as long as the recording did.

Schema: mlcommons/chakra, schema/protobuf/et_def.proto; the attributes that ASTRA-sim's feeder reads
(is_cpu_op, comm_type, comm_size, pg_name): src/feeder/et_feeder_node.cpp there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.kernel_labels import label_kernels
from sightline.core.model.run import Run
from sightline.core.protobuf import declare_messages
from sightline.timeline.collectives import describe_collectives, name_kind
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="chakra",
    label="Chakra execution traces for ASTRA-sim, a file for each rank",
    suffix=".et",
    loses="host ranges, and what is shorter than a microsecond",
)

_MESSAGES = declare_messages(
    """
GlobalMetadata: 1 version text, 2 attr []AttributeProto
Node: 1 id uint, 2 name text, 3 type uint, 4 ctrl_deps []uint, 5 data_deps [packed]uint,
    6 start_time_micros uint, 7 duration_micros uint, 10 attr []AttributeProto
AttributeProto: 1 name text, 9 int64_val int, 27 bool_val bool, 29 string_val text
"""
)
_VERSION = "0.0.4"
# NodeType and CollectiveCommType of the schema.
_COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
_TYPES = {"send": _SEND, "recv": _RECEIVE}
_COMM_TYPES = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
    "barrier": 9,
}


def write(run: Run, target: Path) -> list[Path]:
    """Write a file for each rank, called NAME.RANK.et as ASTRA-sim wants it."""
    nodes = run.ask("dependencies").filter(~pl.col("kind").is_in(["call", "finish"]))
    told = describe_collectives(run.table("collectives")).select(
        "op", "group", "bytes", ref_id="device_op_id"
    )
    nodes = (
        nodes.join(told, on="ref_id", how="left", maintain_order="left")
        .with_columns(kind_=name_kind(pl.coalesce("op", pl.when(_is_nccl()).then("name"))))
        .sort("node")
    )
    labels = label_kernels(nodes.get_column("name"))
    written = []
    for (rank,), own in nodes.partition_by("rank", as_dict=True).items():
        data = b"".join(_frame(message) for message in _list_messages(own, labels))
        written.append(put(target.with_name(f"{target.stem}.{rank}.et"), data))
    return written


def _is_nccl() -> pl.Expr:
    return pl.col("name").str.contains("(?i)^(?:nccl|rccl)")


def _frame(message: Any) -> bytes:
    """A message behind its length, as a varint."""
    body: bytes = message.SerializeToString()
    left, head = len(body), bytearray()
    while left > 0x7F:
        head.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*head, left]) + body


def _list_messages(nodes: pl.DataFrame, labels: dict[str, str]) -> Iterator[Any]:
    """The metadata, then each operation, behind a node for the host where that let it wait."""
    yield _MESSAGES["GlobalMetadata"](version=_VERSION)
    ends: dict[int, int] = {}
    begin = int(nodes.get_column("start_ns").min() or 0)  # type: ignore[arg-type]
    for row in nodes.iter_rows(named=True):
        number = 2 * row["node"] + 1
        before = [row[edge] for edge in ("prev", "wait") if row[edge] in ends]
        ready = max((ends[node] for node in before), default=begin)
        waits = [2 * node + 1 for node in before]
        gap = _to_micros(row["start_ns"] - begin) - _to_micros(ready - begin)
        if gap > 0:
            yield _make_node(number - 1, "host", waits, _to_micros(ready - begin), gap, cpu=True)
            waits = [number - 1]
        ends[row["node"]] = row["end_ns"]
        at = _to_micros(row["start_ns"] - begin)
        length = _to_micros(row["end_ns"] - begin) - at
        node = _make_node(number, labels[row["name"]], waits, at, length, cpu=False)
        if row["kind_"] is not None:
            node.type = _TYPES.get(row["kind_"], _COLLECTIVE)
            _add_communication(node, row)
        yield node


def _to_micros(ns: int) -> int:
    return (ns + 500) // 1000


def _make_node(
    number: int, name: str, waits: list[int], start: int, length: int, *, cpu: bool
) -> Any:
    node = _MESSAGES["Node"](
        id=number, name=name, type=_COMPUTE, start_time_micros=start, duration_micros=length
    )
    node.data_deps.extend(waits)
    node.attr.add(name="is_cpu_op", bool_val=cpu)
    return node


def _add_communication(node: Any, row: dict[str, Any]) -> None:
    if row["kind_"] in _COMM_TYPES:
        node.attr.add(name="comm_type", int64_val=_COMM_TYPES[row["kind_"]])
    if row["bytes"] is not None:
        node.attr.add(name="comm_size", int64_val=row["bytes"])
    if row["group"] is not None:
        node.attr.add(name="pg_name", string_val=row["group"])
