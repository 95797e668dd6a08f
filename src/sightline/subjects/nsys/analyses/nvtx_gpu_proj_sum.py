"""NVTX ranges on the GPU's timeline, by name: nsys calls it nvtx_gpu_proj_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._projection import project_ranges
from sightline.subjects.nsys.analyses._shared import (
    NVTX_HINT,
    declare_name,
    describe_column,
    list_nvtx_ranges,
    require_rows,
)

ANALYSIS = Analysis(
    "nvtx_gpu_proj_sum",
    "How long did the GPU work of the annotated ranges take? (as nsys stats)",
    (
        declare_name("Range", "domain and text of the range"),
        text("Style", "PushPop or StartEnd"),
        number("Total Proj Time (ns)", "sum of the projected durations", "ns"),
        number("Total Range Time (ns)", "sum of the ranges' own durations", "ns"),
        number("Range Instances", "ranges of this name"),
        real("Proj Avg (ns)", "mean projected duration", "ns"),
        real("Proj Med (ns)", "median", "ns"),
        number("Proj Min (ns)", "shortest", "ns"),
        number("Proj Max (ns)", "longest", "ns"),
        real("Proj StdDev (ns)", "standard deviation of the sample; 0 for a single one", "ns"),
        number("Total GPU Ops", "GPU operations that they launched"),
        real("Avg GPU Ops", "GPU operations per range"),
        real("Avg Range Lvl", "mean number of ranges around it"),
        real("Avg Num Child", "mean number of ranges directly inside"),
    ),
    needs=("device_ops", "host_ops"),
    notes=(
        "A range holds the operations whose launching call lies inside it, on the same thread.",
        "Ranges inside others are each counted in full.",
    ),
)
_STATISTICS = ("Avg", "Med", "Min", "Max", "StdDev")


def run(run: Run) -> pl.DataFrame:
    """One row per range, largest projected total first."""
    require_rows(list_nvtx_ranges(run), "nvtx_gpu_proj_sum", "annotated ranges", NVTX_HINT)
    return (
        project_ranges(run)
        .group_by("Range", "Style")
        .agg(
            *describe_column("projected_ns", ""),
            pl.col("ns").sum().alias("Total Range Time (ns)"),
            pl.len().alias("Range Instances"),
            pl.col("ops").sum().alias("Total GPU Ops"),
            pl.col("ops").mean().alias("Avg GPU Ops"),
            pl.col("level").mean().alias("Avg Range Lvl"),
            pl.col("children").mean().alias("Avg Num Child"),
        )
        .sort("Total", "Range", "Style", descending=[True, False, False])
        .rename({"Total": "Total Proj Time (ns)"} | {s: f"Proj {s} (ns)" for s in _STATISTICS})
    )
