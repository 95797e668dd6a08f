"""Operating system calls by name: nsys calls it osrt_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import declare_name, list_host_ops
from sightline.subjects.nsys.analyses._sums import sum_ranges


def list_calls(run: Run) -> pl.DataFrame:
    """Calls, without the marks of where the profiler began and ended to trace them."""
    rows = list_host_ops(run, "os").filter(pl.col("range_kind").is_null())
    return rows.rename({"name": "Name"})


ANALYSIS, run = sum_ranges(
    "osrt_sum",
    "How long did calls to the operating system take in all? (as nsys stats)",
    list_calls,
    by=[declare_name("Name", "function")],
    count="Num Calls",
    what="operating system calls",
    hint="Record with:  nsys profile --trace=cuda,nvtx,osrt",
    notes=("Threads that wait at the same time are each counted.",),
)
