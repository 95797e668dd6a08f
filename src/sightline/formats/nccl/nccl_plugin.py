"""Lines of JSON of a profiler plug-in of NCCL: its events, with CUPTI's kernels where recorded.

What the plug-in is told is NCCL's interface (plugins/profiler of NVIDIA/nccl, version 5): an
`ncclProfileColl` for each collective, `ncclProfileKernelCh` of it for each channel, and
`ncclProfileKernelLaunch`, whose `extCorrId` names the kernel. Without a kernel, a collective is
from its first channel's start to its last one's end, as the proxy thread saw them: NCCL's own
README says that this is late where the CPU is busy. A process of several GPUs is one recording;
each of its ranks is a device.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nccl_plugin",
    label="NCCL profiler plug-in (JSON lines)",
    strong=(rb'"type"\s*:\s*"(?:ProfilerLifecycle|ncclProfile(?:Coll|CollApi|GroupApi|Group))"',),
    weak=(),
    looks_like="lines of JSON with 'ncclProfileColl' or 'ProfilerLifecycle'",
    suffixes=(".jsonl", ".json", ".log"),
    version=3,
    source="https://github.com/NVIDIA/nccl/tree/master/plugins/profiler",
)

_CHANNELS_ONLY = "collectives are timed by the proxy thread, which is late where the CPU is busy"
# Bytes of NCCL's types (nccl.h).
_SIZES = {
    **{f"nccl{t}": 1 for t in ("Int8", "Uint8", "Char", "Float8e4m3", "Float8e5m2")},
    **{f"nccl{t}": 2 for t in ("Float16", "Half", "Bfloat16")},
    **{f"nccl{t}": 4 for t in ("Int32", "Int", "Uint32", "Float32", "Float")},
    **{f"nccl{t}": 8 for t in ("Int64", "Uint64", "Float64", "Double")},
}
_API = ("ncclProfileCollApi", "ncclProfileP2pApi")
_KEYS = ("type", "ctx", "eventAddr", "parentObj", "extCorrId", "commId")
_DEVICE = {
    "rank": pl.Int64,
    "group": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "name": pl.String,
    "op": pl.String,
    "sequence": pl.Int64,
    "elements": pl.Int64,
    "bytes": pl.Int64,
    "dtype": pl.String,
    "is_kernel": pl.Boolean,
}
_HOST = {
    "name": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "pid": pl.Int64,
    "tid": pl.Int64,
}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all collectives that have times. Raises DamagedError where none has."""
    quality: list[Quality] = []
    events, bad = _list_events(read_text(source, quality))
    sizes: dict[str, int] = {}
    for event in events:
        ranks = _number((event.get("details") or {}).get("nranks"))
        if ranks is not None:
            sizes[str(event.get("commId"))] = ranks
    collectives, calls = _match_events(events)
    rows = [row for row in map(_make_row, collectives) if row is not None]
    if not rows:
        raise DamagedError(
            f"cannot read {source.given}", why="no collective in it has a start and an end"
        )
    frame = pl.DataFrame(rows, schema=_DEVICE, orient="row").sort("start_ns", "rank")
    late = int((~frame.get_column("is_kernel")).sum())
    if late:
        quality.append(Quality("no_kernel_times", "warning", _CHANNELS_ONLY, late))
    quality += note_bad_lines(bad, "events of NCCL's profiler")
    whose = frame.get_column("rank").unique()
    alone = int(whose[0]) if whose.len() == 1 else None
    size = pl.col("group").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    frame = frame.with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        device_id=pl.lit(0, pl.Int64) if alone is not None else pl.col("rank"),
        stream_id=pl.col("group").rank("dense").cast(pl.Int64) - 1,
        kind=pl.lit("kernel"),
        group_size=size,
    )
    host = pl.DataFrame(calls, schema=_HOST, orient="row")
    tables = {
        "device_ops": frame.select(
            "device_op_id", "device_id", "stream_id", "kind", "name", "start_ns", "end_ns"
        ),
        "collectives": frame.select(
            *("device_op_id", "op", "group", "group_size", "sequence", "dtype"),
            elements_in="elements",
            elements_out="elements",
            bytes_in="bytes",
            bytes_out="bytes",
        ),
        "host_ops": nest_ranges(host.with_columns(layer=pl.lit("library"))),
    }
    world = max(sizes.values(), default=None) if alone is not None else None
    recording = Recording("NCCL profiler plug-in", rank=alone, world_size=world, clock_offset_ns=0)
    return Imported(tables, recording, quality)


def _list_events(text: str) -> tuple[list[dict[str, Any]], int]:
    """The object of each line, and how many lines are none."""
    found, bad = [], 0
    for line in filter(str.strip, text.splitlines()):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and _is_event(value):
            found.append(value)
        else:
            bad += 1
    return found, bad


def _is_event(value: dict[str, Any]) -> bool:
    """Whether what identifies an event is a text or a number, and its details are an object."""
    plain = all(isinstance(value.get(key), str | int | float | None) for key in _KEYS)
    begin, end = (_time_of(value.get(side)) for side in ("start", "stop"))
    # A stop of 0 is none yet.
    is_in_order = begin is None or not end or end >= begin
    return plain and is_in_order and isinstance(value.get("details"), dict | None)


def _time_of(side: Any) -> float | None:
    at = side.get("ts") if isinstance(side, dict) else None
    return at if isinstance(at, int | float) and not isinstance(at, bool) else None


def _match_events(
    events: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Collectives with the events of their channels and kernels, and calls of NCCL's functions.

    Addresses of events are used again, so the last one of an address counts; launches and the
    collectives of a communicator's rank come in the same order.
    """
    by_address: dict[Any, dict[str, Any]] = {}
    launches: dict[Any, list[Any]] = {}
    order: dict[Any, list[dict[str, Any]]] = {}
    kernels: dict[Any, dict[str, Any]] = {}
    calls = []
    for event in events:
        kind, context = event.get("type"), event.get("ctx")
        if kind == "ncclProfileColl":
            one: dict[str, Any] = {"event": event, "channels": [], "kernel": None}
            by_address[event.get("eventAddr")] = one
            order.setdefault(context, []).append(one)
        elif kind == "ncclProfileKernelCh" and event.get("parentObj") in by_address:
            by_address[event["parentObj"]]["channels"].append(event)
        elif kind == "ncclProfileKernelLaunch":
            launches.setdefault(context, []).append(event.get("extCorrId"))
        elif kind == "KERNEL":
            kernels[event.get("extCorrId")] = event
        elif kind in _API:
            call = _make_call(event)
            if call is not None:
                calls.append(call)
    for context, mine in order.items():
        asked = launches.get(context, [])
        # Collectives of a group share a launch: then nothing tells whose kernel it is.
        if len(asked) == len(mine):
            for one, number in zip(mine, asked, strict=True):
                one["kernel"] = kernels.get(number)
    return [one for mine in order.values() for one in mine], calls


def _make_call(event: dict[str, Any]) -> dict[str, Any] | None:
    times = _read_times([event])
    start = event.get("start")
    if times is None or not isinstance(start, dict):
        return None
    name = (event.get("details") or {}).get("func") or event["type"]
    return {
        "name": f"nccl{replace_surrogates(str(name)).removeprefix('nccl')}",
        "start_ns": times[0],
        "end_ns": times[1],
        "pid": _number(start.get("pid")) or 0,
        "tid": _number(start.get("tid")) or 0,
    }


def _make_row(one: dict[str, Any]) -> dict[str, Any] | None:
    """A collective as a kernel; None where nothing says when it ran."""
    event, kernel = one["event"], one["kernel"]
    times = _read_times([kernel]) if kernel else None
    is_kernel = times is not None
    times = times or _read_times(one["channels"])
    told = event.get("details")
    if times is None or not isinstance(told, dict) or _number(event.get("rank")) is None:
        return None
    op, count, dtype = told.get("func"), _number(told.get("count")), told.get("dtype")
    size = _SIZES.get(str(dtype))
    whole = None if count is None or size is None else count * size
    name = kernel.get("name") if kernel and is_kernel else None
    return {
        "rank": event["rank"],
        "group": replace_surrogates(str(event.get("commId"))),
        "start_ns": times[0],
        "end_ns": times[1],
        "name": replace_surrogates(str(name or f"ncclDevKernel_{op}")),
        "op": None if op is None else replace_surrogates(str(op)),
        "sequence": _number(told.get("seq")),
        "elements": count,
        "bytes": whole if whole is not None and whole <= INT64_MAX else None,
        "dtype": None if dtype is None else replace_surrogates(str(dtype)).removeprefix("nccl"),
        "is_kernel": is_kernel,
    }


def _read_times(events: list[dict[str, Any]]) -> tuple[int, int] | None:
    """First start and last stop, ns; None where one is missing, or an end is before a start."""
    edges = []
    for event in events:
        for edge in ("start", "stop"):
            moment = event.get(edge)
            value = moment.get("ts") if isinstance(moment, dict) else None
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            if not 0 <= value < INT64_MAX / 2000:
                return None
            edges.append(round(value * 1000))
    starts, stops = edges[::2], edges[1::2]
    return (min(starts), max(stops)) if edges and max(stops) >= min(starts) else None


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= INT64_MAX else None
