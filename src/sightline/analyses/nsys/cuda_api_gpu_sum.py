"""CUDA API calls and GPU operations together: nsys calls it cuda_api_gpu_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    NAMES,
    NVTX_NAME,
    OVERLAP_NOTE,
    SHARE_NOTE,
    api_name,
    device_rows,
    host_rows,
    name_column,
    operation,
    summed,
    time_sum,
    with_kernel_name,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_api_gpu_sum",
    "How long did CUDA API calls and GPU operations take in all? (as nsys stats)",
    time_sum(
        "Instances",
        name_column("Category", "CUDA_API, CUDA_KERNEL or MEMORY_OPER"),
        name_column("Operation", "API function, kernel, direction of the copy, or fill"),
    ),
    params=(NAMES, NVTX_NAME),
    notes=(SHARE_NOTE, OVERLAP_NOTE, "Host and GPU time are added up side by side."),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per call or operation, largest total first."""
    is_kernel = pl.col("kind") == "kernel"
    rows = device_rows(run, "kernel", "memcpy", "memset")
    on_device = with_kernel_name(run, rows, names, nvtx_name).select(
        pl.when(is_kernel)
        .then(pl.lit("CUDA_KERNEL"))
        .otherwise(pl.lit("MEMORY_OPER"))
        .alias("Category"),
        pl.when(is_kernel).then(pl.col("kernel")).otherwise(operation()).alias("Operation"),
        "ns",
    )
    calls = host_rows(run, "runtime", "driver").select(
        pl.lit("CUDA_API").alias("Category"), api_name().alias("Operation"), "ns"
    )
    return summed(pl.concat([on_device, calls]), "Instances", ["Category", "Operation"])
