"""Operating system calls by name: nsys calls it osrt_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    SHARE_NOTE,
    host_rows,
    name_column,
    recorded,
    summed,
    time_sum,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "osrt_sum",
    "How long did calls to the operating system take in all? (as nsys stats)",
    time_sum("Num Calls", name_column("Name", "function")),
    needs=("host_ops",),
    notes=(SHARE_NOTE, "Threads that wait at the same time are each counted."),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name, largest total first."""
    # Marks say when the profiler began and ended to trace them: no calls.
    calls = recorded(
        host_rows(run, "os"),
        "osrt_sum",
        "operating system calls",
        "Record with:  nsys profile --trace=cuda,nvtx,osrt",
    ).filter(pl.col("range_kind").is_null())
    return summed(calls.with_columns(Name="name"), "Num Calls", ["Name"])
