"""Kernels by name, grid and block: nsys calls it cuda_gpu_kern_gb_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    NAMES,
    NVTX_NAME,
    OVERLAP_NOTE,
    SHARE_NOTE,
    device_rows,
    name_column,
    summed,
    time_sum,
    with_kernel_name,
    xyz,
)
from sightline.model.columns import text
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_gpu_kern_gb_sum",
    "How long did each kernel run, by launch shape? (as nsys stats)",
    time_sum(
        "Instances",
        text("GridXYZ", "blocks in x, y and z"),
        text("BlockXYZ", "threads of a block in x, y and z"),
        name_column("Name", "kernel"),
    ),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per name and shape, largest total first."""
    kernels = with_kernel_name(run, device_rows(run, "kernel"), names, nvtx_name).with_columns(
        pl.col("kernel").alias("Name"),
        xyz("grid").alias("GridXYZ"),
        xyz("block").alias("BlockXYZ"),
    )
    return summed(kernels, "Instances", ["GridXYZ", "BlockXYZ", "Name"])
