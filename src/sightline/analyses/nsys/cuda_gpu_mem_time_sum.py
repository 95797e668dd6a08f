"""Copies and fills by their time: nsys calls it cuda_gpu_mem_time_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    API_HINT,
    OVERLAP_NOTE,
    SHARE_NOTE,
    device_rows,
    name_column,
    operation,
    recorded,
    summed,
    time_sum,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_gpu_mem_time_sum",
    "How long did copies and fills take in all? (as nsys stats)",
    time_sum("Count", name_column("Operation", "direction of the copy, or fill")),
    needs=("device_ops",),
    notes=(SHARE_NOTE, OVERLAP_NOTE),
)


def run(run: Run) -> pl.DataFrame:
    """One row per operation, largest total first."""
    moved = recorded(
        device_rows(run, "memcpy", "memset"),
        "cuda_gpu_mem_time_sum",
        "copies and no fills",
        API_HINT,
    ).with_columns(operation().alias("Operation"))
    return summed(moved, "Count", ["Operation"])
