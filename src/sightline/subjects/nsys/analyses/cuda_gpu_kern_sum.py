"""Kernels by name: the report that nsys calls cuda_gpu_kern_sum."""

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
    sum_durations,
)

ANALYSIS = Analysis(
    "cuda_gpu_kern_sum",
    "How long did each kernel run in all? (as nsys stats)",
    declare_time_sum("Instances", declare_name("Name", "kernel")),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per name, largest total first."""
    kernels = add_kernel_name(run, list_device_ops(run, "kernel"), names, nvtx_name)
    kernels = kernels.rename({"kernel": "Name"})
    return sum_durations(kernels, "Instances", ["Name"])
