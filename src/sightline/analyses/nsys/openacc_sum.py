"""OpenACC events by name: nsys calls it openacc_sum."""

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
    "openacc_sum",
    "How long did OpenACC events take in all? (as nsys stats)",
    time_sum("Count", name_column("Name", "event")),
    needs=("host_ops",),
    notes=(SHARE_NOTE,),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name, largest total first."""
    events = recorded(
        host_rows(run, "openacc"),
        "openacc_sum",
        "OpenACC events",
        "Record with:  nsys profile --trace=cuda,openacc",
    ).with_columns(Name="name")
    return summed(events, "Count", ["Name"])
