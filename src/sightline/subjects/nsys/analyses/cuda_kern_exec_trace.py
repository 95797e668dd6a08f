"""Each kernel's launch call, queue time and run: nsys calls it cuda_kern_exec_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._kernel_exec import QUEUE_NOTE, measure_phases
from sightline.subjects.nsys.analyses._shared import NAMES, NVTX_NAME, declare_name, format_xyz

ANALYSIS = Analysis(
    "cuda_kern_exec_trace",
    "How long was each kernel's launch call, wait and run? (as nsys stats)",
    (
        number("API Start (ns)", "start of the launch call, since the session began", "ns"),
        number("API Dur (ns)", "duration of the launch call", "ns"),
        number("Queue Start (ns)", "start of the wait, if there was one", "ns"),
        number("Queue Dur (ns)", "duration of the wait", "ns"),
        number("Kernel Start (ns)", "start of the kernel", "ns"),
        number("Kernel Dur (ns)", "duration of the kernel", "ns"),
        number("Total Dur (ns)", "from the call's start to the later of both ends", "ns"),
        number("PID", "process that launched it"),
        number("TID", "thread that launched it"),
        number("DevId", "device"),
        text("API Function", "launch call"),
        text("GridXYZ", "blocks in x, y and z"),
        text("BlockXYZ", "threads of a block in x, y and z"),
        declare_name("Kernel Name", "kernel"),
    ),
    needs=("device_ops", "host_ops"),
    params=(NAMES, NVTX_NAME),
    notes=(QUEUE_NOTE,),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per kernel with a launch call, in order of that call."""
    return (
        measure_phases(run, names, nvtx_name)
        .sort("api_start", "start_ns", "device_op_id")
        .select(
            pl.col("api_start").alias("API Start (ns)"),
            pl.col("api_ns").alias("API Dur (ns)"),
            pl.when(pl.col("queue_ns").is_not_null()).then("api_end").alias("Queue Start (ns)"),
            pl.col("queue_ns").alias("Queue Dur (ns)"),
            pl.col("start_ns").alias("Kernel Start (ns)"),
            pl.col("ns").alias("Kernel Dur (ns)"),
            pl.col("total_ns").alias("Total Dur (ns)"),
            pl.col("api_pid").alias("PID"),
            pl.col("tid").alias("TID"),
            pl.col("device_id").alias("DevId"),
            pl.col("api").alias("API Function"),
            format_xyz("grid").alias("GridXYZ"),
            format_xyz("block").alias("BlockXYZ"),
            pl.col("kernel").alias("Kernel Name"),
        )
    )
