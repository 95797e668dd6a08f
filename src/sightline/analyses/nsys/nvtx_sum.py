"""NVTX ranges by name: nsys calls it nvtx_sum."""

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
    "nvtx_sum",
    "How long did the annotated ranges take in all? (as nsys stats)",
    time_sum(
        "Instances",
        name_column("Style", "PushPop or StartEnd"),
        name_column("Range", "domain and text of the range"),
    ),
    needs=("host_ops",),
    notes=(SHARE_NOTE, "Nested ranges are each counted in full."),
)


def run(run: Run) -> pl.DataFrame:
    """One row per range, largest total first."""
    return summed(
        recorded(nvtx_ranges(run), "nvtx_sum", "annotated ranges", NVTX_HINT),
        "Instances",
        ["Style", "Range"],
    )
