"""Kernels by name: the report that nsys calls cuda_gpu_kern_sum."""

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
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_gpu_kern_sum",
    "How long did each kernel run in all? (as nsys stats)",
    time_sum("Instances", name_column("Name", "kernel")),
    needs=("device_ops",),
    params=(NAMES,),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled") -> pl.DataFrame:
    """One row per name, largest total first."""
    kernels = device_rows(run, "kernel").with_columns(kernel_name(names).alias("Name"))
    return summed(kernels, "Instances", ["Name"])
