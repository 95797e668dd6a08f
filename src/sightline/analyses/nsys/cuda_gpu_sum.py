"""Kernels, copies and fills by name: nsys calls it cuda_gpu_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    NAMES,
    NVTX_NAME,
    OVERLAP_NOTE,
    SHARE_NOTE,
    device_rows,
    name_column,
    operation,
    summed,
    time_sum,
    with_kernel_name,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_gpu_sum",
    "How long did each GPU operation take in all? (as nsys stats)",
    time_sum(
        "Instances",
        name_column("Category", "CUDA_KERNEL or MEMORY_OPER"),
        name_column("Operation", "kernel, direction of the copy, or fill"),
    ),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per operation, largest total first."""
    is_kernel = pl.col("kind") == "kernel"
    rows = device_rows(run, "kernel", "memcpy", "memset")
    rows = with_kernel_name(run, rows, names, nvtx_name).with_columns(
        pl.when(is_kernel)
        .then(pl.lit("CUDA_KERNEL"))
        .otherwise(pl.lit("MEMORY_OPER"))
        .alias("Category"),
        pl.when(is_kernel).then(pl.col("kernel")).otherwise(operation()).alias("Operation"),
    )
    return summed(rows, "Instances", ["Category", "Operation"])
