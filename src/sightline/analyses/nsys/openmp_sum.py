"""OpenMP events by name: nsys calls it openmp_sum."""

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
    "openmp_sum",
    "How long did OpenMP events take in all? (as nsys stats)",
    time_sum("Count", name_column("Name", "event")),
    needs=("host_ops",),
    notes=(SHARE_NOTE,),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name, largest total first."""
    events = recorded(
        host_rows(run, "openmp"),
        "openmp_sum",
        "OpenMP events",
        "Record with:  nsys profile --trace=cuda,openmp",
    ).with_columns(Name="name")
    return summed(events, "Count", ["Name"])
