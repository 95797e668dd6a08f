"""CUDA API calls and GPU operations together: nsys calls it cuda_api_gpu_sum."""

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
    list_host_ops,
    name_operation,
    strip_api_version,
    sum_durations,
)

ANALYSIS = Analysis(
    "cuda_api_gpu_sum",
    "How long did CUDA API calls and GPU operations take in all? (as nsys stats)",
    declare_time_sum(
        "Instances",
        declare_name("Category", "CUDA_API, CUDA_KERNEL or MEMORY_OPER"),
        declare_name("Operation", "API function, kernel, direction of the copy, or memset"),
    ),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE, "Host and GPU time are added up side by side."),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per call or operation, largest total first."""
    is_kernel = pl.col("kind") == "kernel"
    rows = list_device_ops(run, "kernel", "memcpy", "memset")
    on_device = add_kernel_name(run, rows, names, nvtx_name).select(
        pl.when(is_kernel)
        .then(pl.lit("CUDA_KERNEL"))
        .otherwise(pl.lit("MEMORY_OPER"))
        .alias("Category"),
        pl.when(is_kernel).then(pl.col("kernel")).otherwise(name_operation()).alias("Operation"),
        "ns",
    )
    calls = list_host_ops(run, "runtime", "driver").select(
        pl.lit("CUDA_API").alias("Category"), strip_api_version().alias("Operation"), "ns"
    )
    return sum_durations(pl.concat([on_device, calls]), "Instances", ["Category", "Operation"])
