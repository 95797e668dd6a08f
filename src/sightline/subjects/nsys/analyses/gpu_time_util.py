"""Parts of the run in which the GPU had little to do: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.cover import measure_run_before
from sightline.core.model.columns import number, pct
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._expert import PLACE, place_operations
from sightline.subjects.nsys.analyses._shared import ROWS, limit_rows, move_to_session_time

_BY = ["rank", "pid", "device_id"]

ANALYSIS = Analysis(
    "gpu_time_util",
    "In which parts of the run was the GPU hardly used? (as nsys analyze)",
    (
        pct("In-Use (%)", "time of the operations in the part, % of its length"),
        number("Duration (ns)", "length of the part", "ns"),
        number("Start (ns)", "start, since the session began", "ns"),
        *PLACE,
    ),
    needs=("device_ops",),
    # The rule's own defaults: docs of nsys analyze, "GPU Time Utilization".
    params=(
        ROWS,
        Param("threshold", 50, "parts used less than this are listed", "%"),
        Param("chunks", 30, "equal parts that the run of each process and device is cut into"),
    ),
    notes=(
        "Operations at the same time are each counted, so a part can exceed 100 %.",
        "Neighboring parts below the threshold are joined.",
    ),
)


def run(run: Run, *, rows: int = 50, threshold: int = 50, chunks: int = 30) -> pl.DataFrame:
    """One row per part, least used first."""
    ops, windows = place_operations(run)
    parts = _cut_parts(windows, chunks)
    low = (
        _measure_used(ops, parts)
        .with_columns(length=pl.col("to") - pl.col("from"))
        .filter((pl.col("length") > 0) & (100 * pl.col("used") < threshold * pl.col("length")))
        .sort(*_BY, "part")
        # Neighbours have the same difference between their number and their place in the list.
        .with_columns(group=pl.col("part") - pl.int_range(pl.len()).over(_BY))
        .group_by(*_BY, "group", maintain_order=True)
        .agg(
            pl.col("recording_id", "context_id").first(),
            pl.col("from").min(),
            pl.col("to").max(),
            pl.col("used").sum(),
        )
        .with_columns(share=100 * pl.col("used") / (pl.col("to") - pl.col("from")))
    )
    ordered = move_to_session_time(
        low.with_columns(length=pl.col("to") - pl.col("from")), run, "from"
    )
    return limit_rows(ordered.sort("share", "from", *_BY), rows).select(
        pl.col("share").alias("In-Use (%)"),
        pl.col("length").alias("Duration (ns)"),
        pl.col("from").alias("Start (ns)"),
        pl.when(pl.col("pid") >= 0).then("pid").alias("PID"),
        pl.col("device_id").alias("Device ID"),
        pl.col("context_id").alias("Context ID"),
    )


def _cut_parts(windows: pl.DataFrame, chunks: int) -> pl.DataFrame:
    """The windows cut into parts that differ by no more than 1 ns."""
    whole = pl.col("window_end_ns") - pl.col("window_start_ns")
    return (
        windows.with_columns(part=pl.int_ranges(0, chunks))
        .explode("part")
        .with_columns(
            (pl.col("window_start_ns") + whole * pl.col("part") // chunks).alias("from"),
            (pl.col("window_start_ns") + whole * (pl.col("part") + 1) // chunks).alias("to"),
        )
        .select(*_BY, "recording_id", "context_id", "part", "from", "to")
    )


def _measure_used(ops: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """The parts with `used`, the time of the operations in each."""
    ops = ops.select(*_BY, "start_ns", "end_ns")
    measured = []
    for mine in parts.partition_by(_BY, maintain_order=True):
        own = ops.join(mine.select(_BY).head(1), on=_BY, how="semi", nulls_equal=True)
        until, since = (measure_run_before(own, mine.get_column(edge)) for edge in ("to", "from"))
        measured.append(mine.with_columns((until - since).alias("used")))
    return pl.concat(measured) if measured else parts.with_columns(used=pl.lit(0, pl.Int64))
