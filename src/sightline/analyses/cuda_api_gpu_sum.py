"""CUDA API calls and GPU operations together: nsys calls it cuda_api_gpu_sum."""

from __future__ import annotations

import polars as pl

from sightline.algebra.vendor_reports import (
    NAMES,
    OVERLAP_NOTE,
    SHARE_NOTE,
    api_name,
    device_rows,
    host_rows,
    kernel_name,
    name_column,
    operation,
    summed,
    time_sum,
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
    params=(NAMES,),
    notes=(SHARE_NOTE, OVERLAP_NOTE, "Host and GPU time are added up side by side."),
)


def run(run: Run, *, names: str = "demangled") -> pl.DataFrame:
    """One row per call or operation, largest total first."""
    is_kernel = pl.col("kind") == "kernel"
    on_device = device_rows(run, "kernel", "memcpy", "memset").select(
        pl.when(is_kernel)
        .then(pl.lit("CUDA_KERNEL"))
        .otherwise(pl.lit("MEMORY_OPER"))
        .alias("Category"),
        pl.when(is_kernel).then(kernel_name(names)).otherwise(operation()).alias("Operation"),
        "ns",
    )
    calls = host_rows(run, "runtime", "driver").select(
        pl.lit("CUDA_API").alias("Category"), api_name().alias("Operation"), "ns"
    )
    return summed(pl.concat([on_device, calls]), "Instances", ["Category", "Operation"])
