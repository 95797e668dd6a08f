"""A recording's tables as the declared ones, and what limits them."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, ImportOptions, Recording
from sightline.core.model.source import Source
from sightline.formats.nvidia._pc_samples import build_samples
from sightline.formats.nvidia.cupti.device import (
    list_device_ops,
    list_devices,
    list_events,
    list_pools,
    list_syncs,
)
from sightline.formats.nvidia.cupti.file import CuptiFile, read_file
from sightline.formats.nvidia.cupti.holes import count_unlaunched
from sightline.formats.nvidia.cupti.host import add_call, count_open_ranges, list_host_ops
from sightline.formats.nvidia.cupti.quality import list_limits
from sightline.formats.nvidia.cupti.samples import list_samples

_MOMENTS = ("start_ns", "end_ns", "time_ns")


def read_recording(source: Source, options: ImportOptions) -> Imported:
    """The tables of one file. Raises DamagedError where not even its header is whole."""
    file = read_file(source)
    offset, apart = measure_clock(file)
    ops, untimed, unfinished = list_device_ops(file)
    host, unended = list_host_ops(file)
    ops = add_call(ops, host, "launch_id").with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64), pid=pl.lit(file.pid, pl.Int64)
    )
    kernels, samples, sampling = build_samples(list_samples(file), file.cubins, ops, host)
    unlaunched, in_holes = count_unlaunched(file, ops, host)
    counts = {
        **sampling,
        "untimed": untimed,
        "unfinished": unfinished,
        "unended": unended,
        "open_ranges": count_open_ranges(file),
        "unlaunched": unlaunched,
        "in_holes": in_holes,
        "launches": _count_launches(ops),
    }
    tables = {
        "device_ops": ops,
        "host_ops": host,
        "syncs": add_call(list_syncs(file), host, "host_op_id"),
        "cuda_events": add_call(list_events(file), host, "host_op_id"),
        "memory_pools": list_pools(file),
        "devices": list_devices(file, keep_identity=options.keep_identity),
        "profiled_kernels": kernels,
        "pc_samples": samples,
        "threads": _threads(host, file.pid),
    }
    tables = {name: _shift(frame, offset) for name, frame in tables.items() if frame.height}
    return Imported(tables, _describe(file, tables, offset, apart), list_limits(file, counts))


def measure_clock(file: CuptiFile) -> tuple[int, int]:
    """What CUPTI's clock lacks to be the wall clock, in ns, and how far its readings lie apart.

    By default CUPTI reads the wall clock itself, and both are some µs: what it takes to read two.
    """
    clocks = file.frame("clocks")
    if clocks.is_empty():
        return 0, 0
    away = clocks.filter(pl.col("cupti") > 0).select(away=pl.col("realtime") - pl.col("cupti"))
    if away.is_empty():
        return 0, 0
    least, most = away.select(pl.min("away"), most=pl.max("away")).row(0)
    # Between two readings the thread may have been put aside, which only makes it later.
    return (0 if least < 1_000_000 and least > -1_000_000 else int(least)), int(most - least)


def _shift(frame: pl.DataFrame, offset: int) -> pl.DataFrame:
    if not offset:
        return frame
    return frame.with_columns(pl.col(c) + offset for c in _MOMENTS if c in frame.columns)


def _count_launches(ops: pl.DataFrame) -> int:
    """Launches of kernels and graphs, also of those whose call was not recorded."""
    if ops.is_empty():
        return 0
    launched = ops.filter(pl.col("kind").is_in(["kernel", "graph"]))
    return launched.get_column("correlation_id").drop_nulls().n_unique()


def _threads(host: pl.DataFrame, pid: int) -> pl.DataFrame:
    return host.select("tid").drop_nulls().unique().sort("tid").select(pid=pl.lit(pid), tid="tid")


def _describe(
    file: CuptiFile, tables: dict[str, pl.DataFrame], offset: int, apart: int
) -> Recording:
    facts = file.facts
    moments = [
        frame.select(pl.min("start_ns"), pl.max("end_ns")).row(0)
        for name, frame in tables.items()
        if name in ("device_ops", "host_ops")
    ]
    version = _number(facts.get("cupti_version"))
    layers: tuple[str, ...] = ()
    if "host_ops" in tables:
        layers = tuple(tables["host_ops"].get_column("layer").unique().sort())
    return Recording(
        tool="sightline",
        tool_version=None if version is None else f"CUPTI {name_version(version)}",
        rank=_number(facts.get("rank")),
        world_size=_number(facts.get("world_size")),
        clock_offset_ns=offset,
        clock_uncertainty_ns=apart,
        start_ns=min((m[0] for m in moments), default=None),
        end_ns=max((m[1] for m in moments), default=None),
        layers=layers,
    )


def name_version(number: int) -> str:
    """CUPTI_API_VERSION as people know it: 130001 is that of CUDA 13.0, 28 of 12.9."""
    if number >= 100_000:
        return f"{number // 10_000}.{number // 100 % 100}"
    # The numbers before are counted up: cupti_version.h lists them.
    known = {22: "12.4", 23: "12.5", 24: "12.6", 26: "12.8", 27: "12.9", 28: "12.9"}
    return known.get(number, f"API {number}")


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
