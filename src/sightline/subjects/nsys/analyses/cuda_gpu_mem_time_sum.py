"""Copies and memsets by their time: nsys calls it cuda_gpu_mem_time_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    API_HINT,
    OVERLAP_NOTE,
    SHARE_NOTE,
    declare_name,
    declare_time_sum,
    list_device_ops,
    name_operation,
    require_rows,
    sum_durations,
)

ANALYSIS = Analysis(
    "cuda_gpu_mem_time_sum",
    "How long did copies and memsets take in all? (as nsys stats)",
    declare_time_sum("Count", declare_name("Operation", "direction of the copy, or memset")),
    needs=("device_ops",),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run) -> pl.DataFrame:
    """One row per operation, largest total first."""
    moved = require_rows(
        list_device_ops(run, "memcpy", "memset"),
        "cuda_gpu_mem_time_sum",
        "copies and no memsets",
        API_HINT,
    ).with_columns(name_operation().alias("Operation"))
    return sum_durations(moved, "Count", ["Operation"])
