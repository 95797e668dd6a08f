"""Kernels by the NVTX ranges that launched them: nsys calls it nvtx_kern_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._projection import find_held_ops
from sightline.subjects.nsys.analyses._shared import (
    NAMES,
    NVTX_HINT,
    declare_name,
    describe_column,
    list_device_ops,
    list_nvtx_ranges,
    require_rows,
    select_kernel_name,
)

_BY = ["NVTX Range", "Style", "PID", "TID", "Kernel Name"]
_STATISTICS = ("Avg", "Med", "Min", "Max", "StdDev")

ANALYSIS = Analysis(
    "nvtx_kern_sum",
    "Which kernels did each annotated range launch? (as nsys stats)",
    (
        declare_name("NVTX Range", "domain and text of the range"),
        text("Style", "PushPop or StartEnd"),
        number("PID", "process"),
        number("TID", "thread"),
        number("NVTX Inst", "ranges that launched the kernel"),
        number("Kern Inst", "launches of the kernel"),
        number("Total Time (ns)", "sum of the kernel's durations", "ns"),
        real("Avg (ns)", "mean duration", "ns"),
        real("Med (ns)", "median duration", "ns"),
        number("Min (ns)", "shortest", "ns"),
        number("Max (ns)", "longest", "ns"),
        real("StdDev (ns)", "standard deviation of the sample; 0 for a single one", "ns"),
        declare_name("Kernel Name", "kernel"),
    ),
    needs=("device_ops", "host_ops"),
    params=(NAMES,),
    notes=("A kernel counts for every range around its launch call, not only the innermost.",),
)


def run(run: Run, *, names: str = "demangled") -> pl.DataFrame:
    """One row per range, thread and kernel; largest total first."""
    kernels = list_device_ops(run, "kernel").with_columns(
        select_kernel_name(names).alias("Kernel Name")
    )
    ranges = require_rows(
        list_nvtx_ranges(run), "nvtx_kern_sum", "annotated ranges", NVTX_HINT
    ).select("host_op_id", "Style", pl.col("Range").alias("NVTX Range"), PID="pid", TID="tid")
    return (
        find_held_ops(run, kernels)
        .join(ranges, on="host_op_id")
        .join(kernels.select("device_op_id", "Kernel Name", "ns"), on="device_op_id")
        .group_by(_BY)
        .agg(
            *describe_column("ns", ""),
            pl.col("host_op_id").n_unique().alias("NVTX Inst"),
            pl.len().alias("Kern Inst"),
        )
        .sort("Total", *_BY, descending=[True] + [False] * len(_BY))
        .rename({"Total": "Total Time (ns)"} | {s: f"{s} (ns)" for s in _STATISTICS})
    )
