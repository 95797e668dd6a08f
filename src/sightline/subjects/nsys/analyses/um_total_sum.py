"""Unified memory in all: nsys calls it um_total_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MB,
    UM_HINT,
    format_address,
    list_device_ops,
    require_rows,
)

ANALYSIS = Analysis(
    "um_total_sum",
    "How much unified memory moved in all? (as nsys stats)",
    (
        real("Total HtoD Migration Size (MB)", "moved to devices", "MB"),
        real("Total DtoH Migration Size (MB)", "moved to the host", "MB"),
        number("Total CPU Page Faults", "page faults of the CPU"),
        number("Total GPU PageFaults", "page faults of GPUs"),
        text("Minimum Virtual Address", "lowest address that moved or faulted"),
        text("Maximum Virtual Address", "highest one"),
    ),
    notes=("Recorded with --cuda-um-cpu-page-faults=true and --cuda-um-gpu-page-faults=true.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row."""
    moved = list_device_ops(run, "memcpy").filter(pl.col("copy_kind").str.starts_with("UVM "))
    faults = run.table("page_faults")
    addresses = require_rows(
        pl.concat([moved.select("address"), faults.select("address")]),
        "um_total_sum",
        "unified memory that moved or faulted",
        UM_HINT,
    )
    low, high = addresses.select(low=pl.col("address").min(), high=pl.col("address").max()).row(0)

    def bytes_of(kind: str) -> pl.Expr:
        return pl.col("bytes").filter(pl.col("copy_kind") == kind).sum() / MB

    def faults_of(side: str) -> int:
        return int(faults.filter(pl.col("side") == side).get_column("count").sum())

    return moved.select(
        bytes_of("UVM HtoD").alias("Total HtoD Migration Size (MB)"),
        bytes_of("UVM DtoH").alias("Total DtoH Migration Size (MB)"),
        pl.lit(faults_of("cpu")).alias("Total CPU Page Faults"),
        pl.lit(faults_of("gpu")).alias("Total GPU PageFaults"),
        format_address(pl.lit(low, pl.Int64)).alias("Minimum Virtual Address"),
        format_address(pl.lit(high, pl.Int64)).alias("Maximum Virtual Address"),
    )
