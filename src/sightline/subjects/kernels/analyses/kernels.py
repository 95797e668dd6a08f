"""Which kernels take the time."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import Column, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "kernels",
    "Which kernels take the time?",
    (
        text("name", "kernel name", required=True),
        number("instances", "how often it ran"),
        duration("total_ns", "sum of its durations"),
        real("mean_ns", "mean duration", "ns"),
        real("median_ns", "median duration", "ns"),
        duration("min_ns", "shortest"),
        duration("max_ns", "longest"),
        real("stddev_ns", "sample standard deviation; null for a single instance", "ns"),
        pct("window_pct", "total_ns, % of all devices' windows"),
        pct("kernel_pct", "total_ns, % of all rows' total_ns"),
        Column("ranks", pl.Int64, "ranks that ran it"),
    ),
    needs=("device_ops",),
    notes=(
        "Kernels that ran at the same time are each counted: the sum can exceed the window.",
        "Counted are kernels that start in the window. Graph launches recorded whole count as one.",
    ),
)

_COLUMNS = ("rank", "device_id", "kind", "name", "start_ns", "end_ns")


def run(run: Run) -> pl.DataFrame:
    """One row per kernel name, the most expensive first."""
    windows = run.ask("windows")
    total_window = windows.select(
        (pl.col("window_end_ns") - pl.col("window_start_ns")).sum()
    ).item()
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        select_starting_in(run.columns("device_ops", _COLUMNS), windows)
        .filter(pl.col("kind").is_in(["kernel", "graph"]))
        .group_by("name")
        .agg(
            instances=pl.len(),
            total_ns=length.sum(),
            mean_ns=length.mean(),
            median_ns=length.median(),
            min_ns=length.min(),
            max_ns=length.max(),
            stddev_ns=length.std(),
            ranks=pl.col("rank").n_unique(),
        )
        .with_columns(
            window_pct=(100 * pl.col("total_ns") / total_window).fill_nan(0.0),
            kernel_pct=(100 * pl.col("total_ns") / pl.col("total_ns").sum()).fill_nan(0.0),
        )
        .sort("total_ns", "name", descending=[True, False])
    )
