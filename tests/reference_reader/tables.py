"""Turns a trace's rows into tables, following each launch, arrow and number on its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from reference_reader import rows as r
from reference_reader.nesting import nest
from reference_reader.rows import Rows
from sightline.timeline.communication_names import PATTERN

_TEXT = {
    "layer", "name", "input_shapes", "input_types", "input_strides", "input_values", "stack",
    "module_id", "kind", "copy_kind", "src_kind", "dst_kind", "op", "group", "group_description",
    "dtype", "action", "metric",
}  # fmt: skip
_TYPES: dict[str, Any] = {
    "group_ranks": pl.List(pl.Int64),
    "value": pl.Float64,
    "is_start": pl.Boolean,
}
# Outer first where two ranges start and end together.
_LAYER_ORDER = ("step", "annotation", "python", "op", "other", "overhead", "runtime", "driver")
INT64_MAX = 2**63 - 1
_COMMUNICATION = re.compile(PATTERN)
_NO_TRANSFER = ("wait", "init", "barrier_wait")


def build(rows: Rows, header: dict[str, Any]) -> tuple[dict[str, pl.DataFrame], int, int]:
    """The tables of one trace, with ids from 0.

    And how many operations have a launch number that calls of several processes share, and how
    many name no device.
    """
    base = header.get("baseTimeNanoseconds", 0)
    if type(base) is not int or base < 0 or base >= INT64_MAX // 2:
        base = 0
    host = _host_ops(_frame(rows.host, r.HOST_COLUMNS, base, numbered=True))
    device = _frame(rows.device, r.DEVICE_COLUMNS, base, numbered=True)
    nowhere = device.get_column("device_id").null_count()
    device = device.with_columns(pl.col("device_id").fill_null(0))
    flows = _frame(rows.flows, r.FLOW_COLUMNS, base)
    device, ambiguous = _with_launches(device, host, flows)
    tables = {
        "device_ops": device.drop("_row", "pid", "tid", "external_id"),
        "host_ops": _with_forward(host, flows).drop("_row", "forward_tid", "external_id"),
        "device_ranges": _frame(rows.ranges, r.RANGE_COLUMNS, base),
        "syncs": _with_host_op(_frame(rows.syncs, r.SYNC_COLUMNS, base), host),
        "collectives": _collectives(rows, device, host),
        "memory_events": _frame(rows.memory, r.MEMORY_COLUMNS, base),
        "counters": _frame(rows.counters, r.COUNTER_COLUMNS, base),
        "threads": _threads(rows, host),
    }
    return tables, ambiguous, nowhere


def _frame(
    rows: Sequence[tuple[Any, ...] | None], names: Sequence[str], base: int, numbered: bool = False
) -> pl.DataFrame:
    """Columns from rows; times moved to the run's clock. Times that do not fit are dropped.

    None is a begin event that was never closed: it has a number, but is no row.
    """
    places = [i for i, row in enumerate(rows) if row is not None]
    rows = [row for row in rows if row is not None]
    types = {n: pl.String if n in _TEXT else _TYPES.get(n, pl.Int64) for n in names}
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    frame = pl.DataFrame(
        [pl.Series(n, c, dtype=types[n]) for n, c in zip(names, columns, strict=True)]
    )
    if numbered:
        frame = frame.with_columns(pl.Series("_row", places, dtype=pl.UInt32))
    times = [n for n in names if n.endswith("_ns")]
    if not times:
        return frame
    limit = INT64_MAX - base
    fits = pl.all_horizontal(pl.col(times).is_between(-limit, limit))
    return frame.filter(fits).with_columns(pl.col(times) + base)


def _host_ops(frame: pl.DataFrame) -> pl.DataFrame:
    """Ranges in preorder with parent, depth and end of subtree; ids count from 0."""
    order = {layer: i for i, layer in enumerate(_LAYER_ORDER)}
    frame = frame.with_columns(
        _order=pl.col("layer").replace_strict(order, default=len(order), return_dtype=pl.Int8),
        _thread=pl.struct("pid", "tid").rank("dense").cast(pl.Int64),
    ).sort(
        "_thread",
        "start_ns",
        "end_ns",
        "_order",
        "_row",
        descending=[False, False, True, False, False],
    )
    parent, depth, subtree_end = nest(
        frame.get_column("_thread").to_list(),
        frame.get_column("start_ns").to_list(),
        frame.get_column("end_ns").to_list(),
    )
    return frame.drop("_order", "_thread").with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("host_op_id"),
        pl.Series("parent_id", parent, dtype=pl.Int64),
        pl.Series("depth", depth, dtype=pl.Int64),
        pl.Series("subtree_end_id", subtree_end, dtype=pl.Int64),
    )


def _with_launches(
    device: pl.DataFrame, host: pl.DataFrame, flows: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """Device operations with `launch_id`, and how many correlation ids name several calls.

    By correlation id; where an operation has none, by the flow arrow that ends on it.
    """
    calls = host.filter(
        pl.col("layer").is_in(["runtime", "driver"]) & pl.col("correlation_id").is_not_null()
    ).select("correlation_id", "host_op_id", "pid", "tid", "start_ns")
    # A driver call inside a runtime call may share its id: the outer one is the program's.
    first = calls.unique("correlation_id", keep="first", maintain_order=True)
    device = (
        device.sort("start_ns", "end_ns", "device_id", "stream_id", "correlation_id", "_row")
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("device_op_id"))
        .join(
            first.select("correlation_id", launch_id="host_op_id"),
            on="correlation_id",
            how="left",
            maintain_order="left",
        )
    )
    several = calls.group_by("correlation_id").agg(pids=pl.col("pid").n_unique())
    ambiguous = several.filter(pl.col("pids") > 1).join(device, on="correlation_id", how="semi")
    if device.get_column("launch_id").null_count() and flows.height:
        arrows = flows.filter(kind="launch")
        by_flow = (
            arrows.filter("is_start")
            .join(
                calls.rename({"start_ns": "time_ns"}),
                on=["pid", "tid", "time_ns"],
                maintain_order="left_right",
            )
            .select("flow_id", _by_flow="host_op_id")
            .unique("flow_id", keep="first", maintain_order=True)
            .join(
                arrows.filter(~pl.col("is_start")).select(
                    "flow_id", "pid", "tid", start_ns="time_ns"
                ),
                on="flow_id",
                maintain_order="left_right",
            )
            .unique(["pid", "tid", "start_ns"], keep="first", maintain_order=True)
            .drop("flow_id")
        )
        device = (
            device.join(by_flow, on=["pid", "tid", "start_ns"], how="left", maintain_order="left")
            .with_columns(pl.coalesce("launch_id", "_by_flow").alias("launch_id"))
            .drop("_by_flow")
        )
    return device, ambiguous.height


def _with_host_op(syncs: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    calls: dict[int | None, int] = {}
    for op in host.select("layer", "correlation_id", "host_op_id").to_dicts():
        if op["layer"] in ("runtime", "driver") and op["correlation_id"] is not None:
            calls.setdefault(op["correlation_id"], op["host_op_id"])
    found = [calls.get(number) for number in syncs.get_column("correlation_id").to_list()]
    return syncs.with_columns(pl.Series("host_op_id", found, dtype=pl.Int64))


def _with_forward(host: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Backward ops with the id of their forward op: by arrow, else by sequence number."""
    ops = host.filter(pl.col("layer") == "op")
    at = ops.select("pid", "tid", "host_op_id", time_ns="start_ns").unique(
        ["pid", "tid", "time_ns"], keep="first", maintain_order=True
    )
    ends = flows.filter(kind="fwdbwd").join(at, on=["pid", "tid", "time_ns"], maintain_order="left")
    by_arrow = (
        ends.filter("is_start")
        .select("flow_id", forward_id="host_op_id")
        .join(
            ends.filter(~pl.col("is_start")).select("flow_id", "host_op_id"),
            on="flow_id",
            maintain_order="left_right",
        )
        .unique("host_op_id", keep="first", maintain_order=True)
        .drop("flow_id")
    )
    # Autograd gives a backward op the thread of its forward op (never 0) and the same number.
    numbered = ops.filter(pl.col("sequence_id") >= 0)
    is_backward = pl.col("forward_tid").fill_null(0) > 0
    forward = numbered.filter(~is_backward).select(
        "sequence_id", "start_ns", forward_id="host_op_id"
    )
    backward = numbered.filter(is_backward).select("sequence_id", "start_ns", "host_op_id")
    by_number = (
        backward.sort("start_ns")
        .join_asof(
            forward.sort("start_ns", "forward_id"),
            on="start_ns",
            by="sequence_id",
            check_sortedness=False,
        )
        .select("host_op_id", _by_number="forward_id")
        .drop_nulls()
    )
    return (
        host.join(by_arrow, on="host_op_id", how="left", maintain_order="left")
        .join(by_number, on="host_op_id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("forward_id", "_by_number").alias("forward_id"))
        .drop("_by_number")
    )


def _collectives(rows: Rows, device: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Meaning of communication kernels: their own words, else those of an operator around.

    From the launch call upwards, range by range, until one was announced as a collective.
    """
    own = {row[0]: row[1:] for row in rows.device_collectives}
    announced = {row[0]: row[1:] for row in rows.host_collectives if row[1] not in _NO_TRANSFER}
    above = host.get_column("parent_id").to_list()
    place = host.get_column("_row").to_list()
    found = []
    for op in device.select("_row", "device_op_id", "kind", "name", "launch_id").to_dicts():
        meaning = own.get(op["_row"])
        at = op["launch_id"]
        if meaning is None and op["kind"] == "kernel" and _COMMUNICATION.search(op["name"]):
            while at is not None and place[at] not in announced:
                at = above[at]
            meaning = None if at is None else announced[place[at]]
        if meaning is not None:
            found.append((op["device_op_id"], *meaning))
    names = ("device_op_id", *r.COLLECTIVE_COLUMNS[1:])
    return _frame(found, names, 0)


def _threads(rows: Rows, host: pl.DataFrame) -> pl.DataFrame:
    used = host.select("pid", "tid").drop_nulls().unique().sort("pid", "tid").rows()
    return pl.DataFrame(
        {
            "pid": [p for p, _ in used],
            "tid": [t for _, t in used],
            "process_name": [rows.process_names.get(p) for p, _ in used],
            "thread_name": [rows.thread_names.get((p, t)) for p, t in used],
        },
        schema={
            "pid": pl.Int64,
            "tid": pl.Int64,
            "process_name": pl.String,
            "thread_name": pl.String,
        },
    )
