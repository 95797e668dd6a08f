"""What ran on GPUs: render stages, and track events whose category or track says so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

# Categories of torch.profiler's, rocprofv3's and rocprof-sys's device work.
_KINDS = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "kernel_dispatch": "kernel",
    "memory_copy": "memcpy",
    "rocm_kernel_dispatch": "kernel",
    "rocm_memory_copy": "memcpy",
    "gpu_user_annotation": "range",
}
# Tracks of our own export: a stream below a GPU.
_GPU, _STREAM = r"^GPU (\d+)$", r"^stream (-?\d+)$"
_RANGES = r"^annotations(?: of stream (-?\d+))?$"
_COPY = re.compile(r"(host|device|[HDP])\s*_?to_?\s*(host|device|[HDP])", re.IGNORECASE)
_SCHEMA = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "event": pl.Int64, "pid": pl.Int64,
    "device_id": pl.Int64, "context_id": pl.Int64, "stream_id": pl.Int64, "kind": pl.String,
    "name": pl.String, "mangled_name": pl.String, "correlation_id": pl.Int64,
    "grid_x": pl.Int64, "grid_y": pl.Int64, "grid_z": pl.Int64,
    "block_x": pl.Int64, "block_y": pl.Int64, "block_z": pl.Int64,
    "registers_per_thread": pl.Int64, "shared_bytes": pl.Int64, "static_shared_bytes": pl.Int64,
    "dynamic_shared_bytes": pl.Int64, "local_bytes_per_thread": pl.Int64, "bytes": pl.Int64,
    "copy_kind": pl.String, "graph_id": pl.Int64, "graph_node_id": pl.Int64,
}  # fmt: skip
# What producers call the same thing: torch.profiler, rocprofv3, THAPI, our own export.
_KEYS = {
    "device_id": ("device", "device_id", "agent"),
    "stream_id": ("stream", "stream_id", "queue"),
    "context_id": ("context", "context_id"),
    "correlation_id": ("correlation", "corr_id", "correlation_id"),
    "registers_per_thread": ("registers per thread", "registers_per_thread"),
    "shared_bytes": ("shared memory", "shared_bytes", "group_segment_size"),
    "static_shared_bytes": ("static_shared_bytes", "shared_mem_static"),
    "dynamic_shared_bytes": ("dynamic_shared_bytes", "shared_mem_dynamic"),
    "local_bytes_per_thread": ("private_segment_size",),
    "bytes": ("bytes", "copy_bytes"),
    "graph_id": ("graph id", "graph_id"),
    "graph_node_id": ("graph node id", "graph_node_id"),
}
_TEXT_NUMBER = re.compile(r"-?\d+")


def find_device_slices(slices: pl.DataFrame) -> pl.Series:
    """Which of the slices lie on a GPU."""
    by_track = pl.col("above").str.contains(_GPU) & (
        pl.col("title").str.contains(_STREAM) | pl.col("title").str.contains(_RANGES)
    )
    ended = pl.col("end_ns") > pl.col("start_ns")
    said = pl.col("category").is_in(list(_KINDS)) & (ended | (pl.col("type") != 3))
    return slices.select((said | by_track).fill_null(value=False)).to_series()


def list_device_work(
    slices: pl.DataFrame, raw: Mapping[str, pl.DataFrame], host: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The tables device_ops, device_ranges and devices.

    Where kernels stand as track events and as render stages, they are the same ones twice
    (torch.profiler writes both): the events are taken, since stages are cut where they overlap.
    """
    events = _read_slices(slices)
    stages = _read_stages(raw["stages"])
    is_work = pl.col("kind") != "range"
    twice = events.filter(is_work).height > 0 and stages.filter(is_work).height > 0
    both = events if twice else pl.concat([events, stages], how="diagonal")
    work = both.filter(is_work).sort("start_ns", "end_ns", maintain_order=True)
    launched = _add_launches(work, raw, host).with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    ranges = both.filter(~is_work)
    return {
        "device_ops": launched.drop("event", "stage_event", strict=False),
        "device_ranges": ranges.select("device_id", "stream_id", "name", "start_ns", "end_ns"),
        "devices": _list_devices(raw, launched, slices),
    }


def _read_slices(slices: pl.DataFrame) -> pl.DataFrame:
    rows = []
    wanted = slices.select(
        "start_ns", "end_ns", "event", "pid", "name", "category", "arguments", "title",
        track_gpu=pl.col("above").str.extract(_GPU).cast(pl.Int64, strict=False),
        track_stream=pl.coalesce(
            pl.col("title").str.extract(_STREAM), pl.col("title").str.extract(_RANGES)
        ).cast(pl.Int64, strict=False),
    )  # fmt: skip
    for row in wanted.iter_rows(named=True):
        said = _parse(row["arguments"])
        facts = read_facts(said)
        kind = _KINDS.get(row["category"] or "")
        if kind is None:
            is_range = re.match(_RANGES, row["title"] or "") is not None
            kind = "range" if is_range else _text(said.get("kind")) or "kernel"
        name = _text(said.get("full_name")) or row["name"] or f"unknown {kind}"
        rows.append(
            facts
            | {
                "start_ns": row["start_ns"],
                "end_ns": row["end_ns"],
                "event": row["event"],
                "pid": row["pid"],
                "kind": kind,
                "name": name,
                "device_id": _first(row["track_gpu"], facts["device_id"], 0),
                "stream_id": _first(row["track_stream"], facts["stream_id"]),
                "copy_kind": _text(said.get("copy_kind")) or _read_copy(kind, name),
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA)


def _read_stages(stages: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for row in stages.filter(pl.col("duration") >= 0).iter_rows(named=True):
        facts = read_facts(_parse(row["arguments"]))
        stage = row["stage"] or ""
        name = row["name"] or row["kernel"] or stage or "unknown stage"
        kind = "kernel"
        if row["kernel"] is None and re.search("annotation", stage, re.IGNORECASE):
            kind = "range"
        elif row["kernel"] is None and re.search("memset|fill", stage, re.IGNORECASE):
            kind = "memset"
        elif row["kernel"] is None and re.search("memcpy|copy", stage, re.IGNORECASE):
            kind = "memcpy"
        number = _TEXT_NUMBER.findall(row["queue"] or "")
        launch = {n: row[n] for n in _SCHEMA if n.startswith(("grid_", "block_"))}
        rows.append(
            facts
            | {n: v for n, v in launch.items() if v is not None}
            | {
                "start_ns": row["time"],
                "end_ns": row["time"] + row["duration"],
                "stage_event": row["event"],
                "pid": row["pid"],
                "device_id": row["gpu"],
                "context_id": _first(facts["context_id"], row["context"]),
                "stream_id": _first(
                    facts["stream_id"], int(number[-1][:18]) if number else row["queue_number"]
                ),
                "kind": kind,
                "name": row["kernel"] or name if kind == "kernel" else name,
                "mangled_name": row["mangled"],
                "copy_kind": _read_copy(kind, name),
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA | {"stage_event": pl.Int64})


def read_facts(said: Mapping[str, Any]) -> dict[str, Any]:
    """What the arguments of an event say, as columns of device_ops."""
    facts: dict[str, Any] = {
        column: _first(*(_number(said[key]) for key in keys if key in said))
        for column, keys in _KEYS.items()
    }
    for shape in ("grid", "block"):
        listed = said.get(shape)
        for i, axis in enumerate("xyz"):
            is_whole = isinstance(listed, list) and len(listed) == 3
            size = listed[i] if is_whole and listed else said.get(f"{shape}_{axis}")
            facts[f"{shape}_{axis}"] = _number(size)
    return facts


def _add_launches(
    work: pl.DataFrame, raw: Mapping[str, pl.DataFrame], host: pl.DataFrame
) -> pl.DataFrame:
    """The work with `launch_id`: by render stage, by flow, or by correlation id."""
    if work.is_empty():
        return work.with_columns(launch_id=pl.lit(None, pl.Int64))
    ids = host.select("event", launch_id="host_op_id").drop_nulls("event")
    ways = []
    if "stage_event" in work.columns:
        links = raw["links"].filter(pl.col("is_wait") == 0).join(ids, on="event")
        ways.append(("stage_event", links.select("launch_id", stage_event="stage_event")))
    flows = raw["flows"].filter(pl.col("flow") != 0)
    starts = flows.join(ids, on="event").select("flow", "launch_id")
    joined = (
        flows.rename({"event": "to"})
        .join(starts, on="flow")
        .select(event="to", launch_id="launch_id")
    )
    ways.append(("event", joined))
    calls = host.filter(pl.col("layer").is_in(["runtime", "driver"])).drop_nulls("correlation_id")
    ways.append(("correlation_id", calls.select("correlation_id", launch_id="host_op_id")))
    found = []
    for key, pairs in ways:
        first = pairs.drop_nulls().unique(key, keep="first", maintain_order=True)
        wanted = work.select(key).join(first, on=key, how="left", maintain_order="left")
        found.append(wanted.get_column("launch_id"))
    return work.with_columns(launch_id=pl.coalesce(*(pl.lit(s) for s in found)))


def _list_devices(
    raw: Mapping[str, pl.DataFrame], work: pl.DataFrame, slices: pl.DataFrame
) -> pl.DataFrame:
    known = {row["gpu"]: row for row in raw["gpus"].iter_rows(named=True)}
    used = work.get_column("device_id").drop_nulls().unique().to_list()
    maker = _find_maker(raw, slices)
    rows = []
    for number in sorted({*used, *known}):
        gpu = known.get(number, {})
        vendor = (gpu.get("vendor") or "").lower()
        words = {"nvidia": "nvidia", "amd": "amd", "advanced micro": "amd", "intel": "intel"}
        found = next((v for word, v in words.items() if word in vendor), None)
        rows.append(
            {
                "device_id": number,
                "vendor": found or maker,
                "name": gpu.get("name"),
            }
        )
    schema = {"device_id": pl.Int64, "vendor": pl.String, "name": pl.String}
    return pl.DataFrame(rows, schema=schema)


def _find_maker(raw: Mapping[str, pl.DataFrame], slices: pl.DataFrame) -> str | None:
    """Whose GPUs they are, by who writes such events, or by what kernels were compiled for."""
    category = slices.get_column("category")
    if category.is_in(["kernel_dispatch", "rocm_kernel_dispatch"]).any():
        return "amd"
    for arch, maker in (("sm_", "nvidia"), ("gfx", "amd")):
        if raw["stages"].get_column("arguments").str.contains(f'"arch":"{arch}').any():
            return maker
    return None


def _parse(arguments: str | None) -> dict[str, Any]:
    try:
        said = json.loads(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _number(value: Any) -> int | None:
    """A whole number of 64 bits, also where it is the end of a text (`Agent 4`)."""
    if isinstance(value, str):
        found = _TEXT_NUMBER.findall(value[-20:])
        value = int(found[-1]) if found else None
    return value if type(value) is int and -(2**63) < value < 2**63 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _first(*values: int | None) -> int | None:
    return next((v for v in values if v is not None), None)


def _read_copy(kind: str, name: str) -> str | None:
    """HtoD, DtoH, …, of the name of a copy."""
    found = _COPY.search(name) if kind == "memcpy" else None
    if found is None:
        return None
    return f"{found[1][0].upper()}to{found[2][0].upper()}"
