"""Copies and memsets by their size: nsys calls it cuda_gpu_mem_size_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    API_HINT,
    MB,
    declare_name,
    describe_column,
    list_device_ops,
    name_operation,
    require_rows,
)

_SIZES = ("Total", "Avg", "Med", "Min", "Max", "StdDev")

ANALYSIS = Analysis(
    "cuda_gpu_mem_size_sum",
    "How much did copies and memsets move in all? (as nsys stats)",
    (
        real("Total (MB)", "sum of the sizes", "MB"),
        number("Count", "how many"),
        real("Avg (MB)", "mean size", "MB"),
        real("Med (MB)", "median size", "MB"),
        real("Min (MB)", "smallest", "MB"),
        real("Max (MB)", "largest", "MB"),
        real("StdDev (MB)", "standard deviation of the sample; 0 for a single one", "MB"),
        declare_name("Operation", "direction of the copy, or memset"),
    ),
    needs=("device_ops",),
    notes=("A megabyte is 10⁶ bytes.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per operation, largest total first."""
    return (
        require_rows(
            list_device_ops(run, "memcpy", "memset"),
            "cuda_gpu_mem_size_sum",
            "copies and no memsets",
            API_HINT,
        )
        .group_by(name_operation().alias("Operation"))
        .agg(*describe_column("bytes", ""), Count=pl.len())
        .sort("Total", "Operation", descending=[True, False])
        .with_columns(pl.col(_SIZES) / MB)
        .rename({name: f"{name} (MB)" for name in _SIZES})
    )
