"""CUDA API calls by name: nsys calls it cuda_api_sum."""

from __future__ import annotations

import polars as pl

from sightline.analyses.nsys._shared import (
    API_HINT,
    SHARE_NOTE,
    api_name,
    host_rows,
    name_column,
    recorded,
    summed,
    time_sum,
)
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "cuda_api_sum",
    "How long did the CUDA API calls take in all? (as nsys stats)",
    time_sum("Num Calls", name_column("Name", "API function")),
    needs=("host_ops",),
    notes=(SHARE_NOTE,),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name, largest total first."""
    calls = recorded(
        host_rows(run, "runtime", "driver"), "cuda_api_sum", "CUDA API calls", API_HINT
    ).with_columns(api_name().alias("Name"))
    return summed(calls, "Num Calls", ["Name"])
