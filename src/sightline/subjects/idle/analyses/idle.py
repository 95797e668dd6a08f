"""Why the device was idle: the parts of its gaps summed up by cause."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "idle",
    "Why was the device idle, and how much did each cause take?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("cause", "see `idle_parts`; 'unknown' is always there", required=True),
        number("gaps", "how many gaps it had a part in"),
        duration("total_ns", "sum of its parts of these gaps"),
        pct("window_pct", "total_ns, % of the device's window"),
        pct("idle_pct", "total_ns, % of the device's idle time"),
        duration("longest_ns", "the longest part; null where there is none"),
        text("host_op", "what the host was in for most of that time"),
    ),
    needs=("device_ops",),
    params=(Param("micro_ns", 5_000, "gaps of queued work shorter than this are micro_gap", "ns"),),
    notes=("total_ns of a device's rows sum to its idle_ns in `breakdown` exactly.",),
)

_BY = ["rank", "device_id"]


def run(run: Run, *, micro_ns: int) -> pl.DataFrame:
    """One row per rank, device and cause, the largest first."""
    gaps = run.ask("idle_parts", micro_ns=micro_ns).rename({"part_ns": "duration_ns"})
    windows = run.ask("breakdown").select(*_BY, "window_ns", "idle_ns")
    key = [*_BY, "cause"]
    totals = gaps.group_by(key).agg(
        gaps=pl.len(), total_ns=pl.col("duration_ns").sum(), longest_ns=pl.col("duration_ns").max()
    )
    return (
        pl.concat([totals.select(key), windows.select(*_BY, cause=pl.lit("unknown"))])
        .unique()
        .join(totals, on=key, how="left")
        .with_columns(pl.col("gaps", "total_ns").fill_null(0))
        .join(_main_host_op(gaps), on=key, how="left")
        .join(windows, on=_BY)
        .with_columns(
            window_pct=(100 * pl.col("total_ns") / pl.col("window_ns")).fill_nan(0.0),
            idle_pct=(100 * pl.col("total_ns") / pl.col("idle_ns")).fill_nan(0.0),
        )
        .drop("window_ns", "idle_ns")
        .sort(*_BY, "total_ns", "cause", descending=[False, False, True, False])
    )


def _main_host_op(gaps: pl.DataFrame) -> pl.DataFrame:
    """The host range with the largest share of each cause's time."""
    key = [*_BY, "cause"]
    return (
        gaps.drop_nulls("host_op")
        .group_by(*key, "host_op")
        .agg(ns=pl.col("duration_ns").sum())
        .sort("ns", "host_op", descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .select(*key, "host_op")
    )
