"""Kernels by name, grid and block: nsys calls it cuda_gpu_kern_gb_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import text
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
    format_xyz,
    list_device_ops,
    sum_durations,
)

ANALYSIS = Analysis(
    "cuda_gpu_kern_gb_sum",
    "How long did each kernel run, by launch shape? (as nsys stats)",
    declare_time_sum(
        "Instances",
        text("GridXYZ", "blocks in x, y and z"),
        text("BlockXYZ", "threads of a block in x, y and z"),
        declare_name("Name", "kernel"),
    ),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per name and shape, largest total first."""
    kernels = add_kernel_name(run, list_device_ops(run, "kernel"), names, nvtx_name).with_columns(
        pl.col("kernel").alias("Name"),
        format_xyz("grid").alias("GridXYZ"),
        format_xyz("block").alias("BlockXYZ"),
    )
    return sum_durations(kernels, "Instances", ["GridXYZ", "BlockXYZ", "Name"])
