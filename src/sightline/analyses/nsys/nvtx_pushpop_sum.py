"""NVTX push/pop ranges by name: nsys calls it nvtx_pushpop_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    NVTX_HINT,
    SHARE_NOTE,
    name_column,
    nvtx_ranges,
    recorded,
    summed,
    time_sum,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "nvtx_pushpop_sum",
    "How long did the push/pop ranges take in all? (as nsys stats)",
    time_sum("Instances", name_column("Range", "domain and text of the range")),
    needs=("host_ops",),
    notes=(SHARE_NOTE, "Nested ranges are each counted in full."),
)


def run(run: Run) -> pl.DataFrame:
    """One row per range, largest total first."""
    return summed(
        recorded(
            nvtx_ranges(run, kinds=("pushpop",)), "nvtx_pushpop_sum", "push/pop ranges", NVTX_HINT
        ),
        "Instances",
        ["Range"],
    )
