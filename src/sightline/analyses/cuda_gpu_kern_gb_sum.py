"""Kernels by name, grid and block: nsys calls it cuda_gpu_kern_gb_sum."""

from __future__ import annotations

import polars as pl

from sightline.algebra.vendor_reports import (
    NAMES,
    OVERLAP_NOTE,
    SHARE_NOTE,
    device_rows,
    kernel_name,
    name_column,
    summed,
    time_sum,
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
    params=(NAMES,),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled") -> pl.DataFrame:
    """One row per name and shape, largest total first."""
    kernels = device_rows(run, "kernel").with_columns(
        kernel_name(names).alias("Name"),
        xyz("grid").alias("GridXYZ"),
        xyz("block").alias("BlockXYZ"),
    )
    return summed(kernels, "Instances", ["GridXYZ", "BlockXYZ", "Name"])
