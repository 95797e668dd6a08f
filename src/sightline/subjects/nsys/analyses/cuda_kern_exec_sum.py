"""Launch calls, queue times and runs by kernel: nsys calls it cuda_kern_exec_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._kernel_exec import QUEUE_NOTE, measure_phases
from sightline.subjects.nsys.analyses._shared import NAMES, NVTX_NAME, declare_name, describe_column

_PHASES = {
    "T": ("total_ns", "from the call's start to the later of both ends"),
    "A": ("api_ns", "launch call"),
    "Q": ("queue_ns", "wait in the queue, of the kernels that waited"),
    "K": ("ns", "kernel"),
}
_STATISTICS = ("Avg", "Med", "Min", "Max", "StdDev")
_BY = {
    "PID": "api_pid",
    "TID": "tid",
    "DevId": "device_id",
    "API Name": "api",
    "Kernel Name": "kernel",
}

ANALYSIS = Analysis(
    "cuda_kern_exec_sum",
    "How long were launch calls, waits and runs, by kernel? (as nsys stats)",
    (
        number("PID", "process that launched"),
        number("TID", "thread that launched"),
        number("DevId", "device"),
        number("Count", "kernels"),
        number("QCount", "kernels that waited in the queue"),
        *(
            (number if s in ("Min", "Max") else real)(f"{p}{s} (ns)", f"{s} of: {doc}", "ns")
            for p, (_, doc) in _PHASES.items()
            for s in _STATISTICS
        ),
        text("API Name", "launch call"),
        declare_name("Kernel Name", "kernel"),
    ),
    needs=("device_ops", "host_ops"),
    params=(NAMES, NVTX_NAME),
    notes=(QUEUE_NOTE,),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per thread, device, call and kernel; largest total time first."""
    found = (
        measure_phases(run, names, nvtx_name)
        .group_by([pl.col(column).alias(name) for name, column in _BY.items()])
        .agg(
            pl.len().alias("Count"),
            (pl.col("queue_ns") > 0).sum().alias("QCount"),
            *(e for p, (column, _) in _PHASES.items() for e in describe_column(column, p)),
        )
        .sort("TTotal", *_BY, descending=[True] + [False] * len(_BY), nulls_last=True)
    )
    return found.rename({f"{p}{s}": f"{p}{s} (ns)" for p in _PHASES for s in _STATISTICS}).drop(
        f"{p}Total" for p in _PHASES
    )
