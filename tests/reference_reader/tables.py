"""Turns a trace's rows into the declared tables: columnar from here on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from reference_reader import quality as checks
from reference_reader import rows as r
from reference_reader.nesting import nest
from reference_reader.rows import Rows
from sightline.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.timeline.classes import is_communication
from sightline.units import INT64_MAX

_TEXT = {
    "layer", "name", "input_shapes", "input_types", "stack", "module_id", "kind", "copy_kind",
    "src_kind", "dst_kind", "op", "group", "group_description", "dtype", "action", "metric",
}  # fmt: skip
_TYPES: dict[str, Any] = {
    "group_ranks": pl.List(pl.Int64),
    "value": pl.Float64,
    "is_start": pl.Boolean,
}
# Outer first where two ranges start and end together.
_LAYER_ORDER = ("step", "annotation", "python", "op", "other", "overhead", "runtime", "driver")
# Bytes of an element, for the dtype names of c10 (c10/core/ScalarType.h) that collectives use.
_ELEMENT_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "half": 2, "float": 4,
    "double": 8, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def build(
    rows: Rows,
    header: dict[str, Any],
    notes: list[Quality],
    options: ImportOptions,
) -> Imported:
    """The tables of one trace, with ids from 0, and the facts on the recording."""
    base = _base_ns(header)
    quality = list(notes)
    host = _host_ops(_frame(rows.host, r.HOST_COLUMNS, base, numbered=True))
    device = _frame(rows.device, r.DEVICE_COLUMNS, base, numbered=True)
    no_device = device.get_column("device_id").null_count()
    if no_device:
        quality.append(checks.without_device(no_device))
        device = device.with_columns(pl.col("device_id").fill_null(0))
    flows = _frame(rows.flows, r.FLOW_COLUMNS, base)
    device, ambiguous = _with_launches(device, host, flows)
    host_collectives = _frame(rows.host_collectives, r.COLLECTIVE_COLUMNS, base)
    collectives = _collectives(
        device, _frame(rows.device_collectives, r.COLLECTIVE_COLUMNS, base), host, host_collectives
    )
    syncs = _with_host_op(_frame(rows.syncs, r.SYNC_COLUMNS, base), host)
    quality += checks.checks(rows, device, host, ambiguous)
    host = _with_forward(host, flows)
    tables = {
        "device_ops": device.drop("_row", "pid", "tid", "external_id"),
        "host_ops": host.drop("_row", "forward_tid", "external_id"),
        "device_ranges": _frame(rows.ranges, r.RANGE_COLUMNS, base),
        "syncs": syncs,
        "collectives": collectives,
        "memory_events": _frame(rows.memory, r.MEMORY_COLUMNS, base),
        "counters": _frame(rows.counters, r.COUNTER_COLUMNS, base),
        "devices": _devices(header, device),
        "threads": _threads(rows, host),
    }
    return Imported(tables, Recording(**_recording(rows, header, base, host, options)), quality)


def _base_ns(header: dict[str, Any]) -> int:
    base = header.get("baseTimeNanoseconds")
    # Half the range, so that base plus any time of the file still fits.
    return base if type(base) is int and 0 <= base < INT64_MAX // 2 else 0


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
        device.sort("start_ns", "end_ns", "_row")
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
    calls = (
        host.filter(pl.col("layer").is_in(["runtime", "driver"]))
        .filter(pl.col("correlation_id").is_not_null())
        .select("correlation_id", "host_op_id")
        .unique("correlation_id", keep="first", maintain_order=True)
    )
    return syncs.join(calls, on="correlation_id", how="left", maintain_order="left")


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


def _collectives(
    device: pl.DataFrame, own: pl.DataFrame, host: pl.DataFrame, announced: pl.DataFrame
) -> pl.DataFrame:
    """Meaning of communication kernels: from the kernel itself, else from the op that launched it.

    The op (record_param_comms) is an ancestor of the launch call: the nearest one before it in
    preorder whose subtree holds the call.
    """
    ids = device.select(pl.col("_row").cast(pl.Int64).alias("row"), "device_op_id")
    direct = own.join(ids, on="row").drop("row")
    ops = (
        announced.join(
            host.select(pl.col("_row").cast(pl.Int64).alias("row"), "host_op_id", "subtree_end_id"),
            on="row",
        )
        .drop("row")
        .filter(~pl.col("op").is_in(["wait", "init", "barrier_wait"]))
        .sort("host_op_id")
    )
    bare = (
        device.filter((pl.col("kind") == "kernel") & is_communication(pl.col("name")))
        .join(direct, on="device_op_id", how="anti")
        .select("device_op_id", "launch_id")
        .drop_nulls()
        .sort("launch_id", "device_op_id")
    )
    inherited = (
        bare.join_asof(ops, left_on="launch_id", right_on="host_op_id", check_sortedness=False)
        .filter(pl.col("launch_id") < pl.col("subtree_end_id"))
        .select(direct.columns)
    )
    element = (
        pl.col("dtype")
        .str.to_lowercase()
        .replace_strict(_ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    )
    return (
        pl.concat([direct, inherited])
        .sort("device_op_id")
        .with_columns(
            bytes_in=pl.col("elements_in") * element, bytes_out=pl.col("elements_out") * element
        )
    )


def _devices(header: dict[str, Any], device: pl.DataFrame) -> pl.DataFrame:
    """Devices that the header describes, and those that only appear in the timeline."""
    listed = header.get("deviceProperties")
    found: dict[int, dict[str, Any]] = {}
    for entry in listed if isinstance(listed, list) else []:
        number = r._int(entry.get("id")) if isinstance(entry, dict) else None
        if number is None:
            continue
        major, minor = r._int(entry.get("computeMajor")), r._int(entry.get("computeMinor"))
        name = r._text_or_none(entry.get("name"))
        found[number] = {
            "vendor": _vendor(name or ""),
            "name": name,
            "sm_count": r._int(entry.get("numSms")),
            "memory_bytes": r._int(entry.get("totalGlobalMem")),
            "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
            "warp_size": r._int(entry.get("warpSize")),
            "max_threads_per_sm": r._int(entry.get("maxThreadsPerMultiprocessor")),
            "registers_per_sm": r._int(entry.get("regsPerMultiprocessor")),
            "shared_bytes_per_sm": r._int(entry.get("sharedMemPerMultiprocessor")),
        }
    for number in device.get_column("device_id").unique().to_list():
        found.setdefault(number, {})
    names = (
        "vendor",
        "name",
        "sm_count",
        "memory_bytes",
        "compute_capability",
        "warp_size",
        "max_threads_per_sm",
        "registers_per_sm",
        "shared_bytes_per_sm",
    )
    texts = {"vendor", "name", "compute_capability"}
    ordered = sorted(found)
    return pl.DataFrame(
        [pl.Series("device_id", ordered, dtype=pl.Int64)]
        + [
            pl.Series(
                n,
                [found[d].get(n) for d in ordered],
                dtype=pl.String if n in texts else pl.Int64,
            )
            for n in names
        ]
    )


def _vendor(name: str) -> str | None:
    low = name.lower()
    for vendor, words in (
        ("nvidia", ("nvidia", "tesla", "geforce", "quadro", "rtx")),
        ("amd", ("amd", "radeon", "instinct")),
        ("intel", ("intel", "data center gpu max")),
        ("meta", ("mtia",)),
    ):
        if any(word in low for word in words):
            return vendor
    return None


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


def _recording(
    rows: Rows,
    header: dict[str, Any],
    base: int,
    host: pl.DataFrame,
    options: ImportOptions,
) -> dict[str, Any]:
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    rank = r._int(info.get("rank"))
    version = header.get("cuda_runtime_version", header.get("hip_runtime_version"))
    is_torch = "schemaVersion" in header or rows.span is not None or "distributedInfo" in header
    start, end = rows.span if rows.span is not None else (None, None)
    return {
        "rank": rank if rank is not None and rank >= 0 else None,
        "tool": "PyTorch profiler" if is_torch else "Chrome trace",
        "tool_version": None if version is None else f"runtime {version}",
        "host": r._text_or_none(header.get("host_name")) if options.keep_identity else None,
        "world_size": r._int(info.get("world_size")),
        "clock_offset_ns": base,
        "start_ns": None if start is None else start + base,
        "end_ns": None if end is None else end + base,
        "has_stacks": bool(
            host.select(
                ((pl.col("layer") == "python") | pl.col("stack").is_not_null()).any()
            ).item()
        ),
        "has_shapes": bool(host.select(pl.col("input_shapes").is_not_null().any()).item()),
    }
