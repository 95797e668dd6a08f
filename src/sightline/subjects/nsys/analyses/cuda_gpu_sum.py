"""Kernels, copies and memsets by name: nsys calls it cuda_gpu_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    NAMES,
    NVTX_NAME,
    OVERLAP_NOTE,
    SHARE_NOTE,
    add_kernel_name,
    declare_name,
    declare_time_sum,
    list_device_ops,
    name_operation,
    sum_durations,
)

ANALYSIS = Analysis(
    "cuda_gpu_sum",
    "How long did each GPU operation take in all? (as nsys stats)",
    declare_time_sum(
        "Instances",
        declare_name("Category", "CUDA_KERNEL or MEMORY_OPER"),
        declare_name("Operation", "kernel, direction of the copy, or memset"),
    ),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per operation, largest total first."""
    is_kernel = pl.col("kind") == "kernel"
    rows = list_device_ops(run, "kernel", "memcpy", "memset")
    rows = add_kernel_name(run, rows, names, nvtx_name).with_columns(
        pl.when(is_kernel)
        .then(pl.lit("CUDA_KERNEL"))
        .otherwise(pl.lit("MEMORY_OPER"))
        .alias("Category"),
        pl.when(is_kernel).then(pl.col("kernel")).otherwise(name_operation()).alias("Operation"),
    )
    return sum_durations(rows, "Instances", ["Category", "Operation"])
