"""What MPI calls sent and received, by name: nsys calls it mpi_msg_size_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import declare_name, describe_column, list_host_ops

_SOURCES = {"bytes": "p2p", "bytes_sent": "coll_send", "bytes_received": "coll_recv"}

ANALYSIS = Analysis(
    "mpi_msg_size_sum",
    "How much did the MPI calls send and receive? (as nsys stats)",
    (
        number("Total Message Volume (B)", "sum of the sizes", "bytes"),
        number("Instances", "how many"),
        real("Avg (B)", "mean size", "bytes"),
        real("Med (B)", "median size", "bytes"),
        number("Min (B)", "smallest", "bytes"),
        number("Max (B)", "largest", "bytes"),
        real("StdDev (B)", "standard deviation of the sample; 0 for a single one", "bytes"),
        text("Source", "p2p, coll_send or coll_recv"),
        declare_name("Name", "MPI function"),
    ),
    needs=("mpi_events",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per function and side, largest volume first."""
    calls = list_host_ops(run, "mpi").select("host_op_id", Name="name")
    sizes = (
        run.table("mpi_events")
        .join(calls, on="host_op_id")
        .unpivot(on=list(_SOURCES), index=["Name"], variable_name="Source", value_name="size")
        .drop_nulls("size")
        .with_columns(pl.col("Source").replace_strict(_SOURCES, return_dtype=pl.String))
    )
    return (
        sizes.group_by("Source", "Name")
        .agg(*describe_column("size", ""), pl.len().alias("Instances"))
        .sort("Total", "Source", "Name", descending=[True, False, False])
        .rename(
            {"Total": "Total Message Volume (B)"}
            | {s: f"{s} (B)" for s in ("Avg", "Med", "Min", "Max", "StdDev")}
        )
    )
