"""MPI calls by name: nsys calls it mpi_event_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MPI_SOURCES,
    SHARE_NOTE,
    declare_name,
    declare_time_sum,
    list_host_ops,
    sum_durations,
)

ANALYSIS = Analysis(
    "mpi_event_sum",
    "How long did the MPI calls take in all? (as nsys stats)",
    declare_time_sum(
        "Instances",
        text("Source", "p2p, collectives, startwait or other"),
        declare_name("Name", "MPI function"),
    ),
    needs=("mpi_events",),
    notes=(SHARE_NOTE,),
)


def run(run: Run) -> pl.DataFrame:
    """One row per function, largest total first."""
    kinds = run.table("mpi_events").select(
        "host_op_id", pl.col("kind").replace_strict(MPI_SOURCES, default=None).alias("Source")
    )
    calls = list_host_ops(run, "mpi").join(kinds, on="host_op_id", how="left")
    return sum_durations(calls.with_columns(Name="name"), "Instances", ["Source", "Name"])
