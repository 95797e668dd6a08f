"""Long times without GPU work: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import find_gaps
from sightline.core.model.columns import number
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._expert import PLACE, place_operations
from sightline.subjects.nsys.analyses._shared import ROWS, limit_rows, move_to_session_time

_BY = ["rank", "pid", "device_id"]

ANALYSIS = Analysis(
    "gpu_gaps",
    "When did a process leave its GPU idle for long? (as nsys analyze)",
    (
        number("Duration (ns)", "duration", "ns"),
        number("Start (ns)", "start, since the session began", "ns"),
        *PLACE,
    ),
    needs=("device_ops",),
    params=(
        ROWS,
        Param("gap_ms", 500, "shortest gap that is listed (nsys' own default)", "ms"),
    ),
    notes=(
        "Between the first and last operation of a process on a device; time that the profiler "
        "itself took is not a gap. Copies and graphs count as work.",
    ),
)


def run(run: Run, *, rows: int = 50, gap_ms: int = 500) -> pl.DataFrame:
    """One row per gap, longest first."""
    ops, windows = place_operations(run)
    of_profiler = run.table("host_ops").filter(
        (pl.col("layer") == "overhead") & pl.col("category").str.contains("Profiler")
    )
    taken = windows.select(_BY).join(
        of_profiler.select("rank", "pid", "start_ns", "end_ns"), on=["rank", "pid"]
    )
    busy = pl.concat([ops.select(*_BY, "start_ns", "end_ns"), taken])
    found = (
        find_gaps(busy, windows, _BY)
        .with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
        .filter(pl.col("ns") > gap_ms * 1_000_000)
        .join(windows.select(*_BY, "recording_id", "context_id"), on=_BY)
    )
    ordered = move_to_session_time(found, run, "start_ns").sort(
        "ns", "start_ns", *_BY, descending=[True] + [False] * (1 + len(_BY))
    )
    return limit_rows(ordered, rows).select(
        pl.col("ns").alias("Duration (ns)"),
        pl.col("start_ns").alias("Start (ns)"),
        pl.when(pl.col("pid") >= 0).then("pid").alias("PID"),
        pl.col("device_id").alias("Device ID"),
        pl.col("context_id").alias("Context ID"),
    )
