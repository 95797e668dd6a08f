"""Copies and memsets that the host asked for, where only the calls were seen."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, flag, number, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "requested_copies",
    "What did the host ask to copy, in which direction, and how long did the calls hold it?",
    (
        RANK,
        text("kind", "memcpy or memset", required=True),
        text("copy_kind", "HtoD, DtoH, DtoD, HtoH or PtoP; null where the call leaves it open"),
        text("call", "the function", required=True),
        flag("is_async", "the call may return before the copy is done"),
        number("copies", "calls that succeeded"),
        number("failed", "calls that did not"),
        size("bytes", "sum of the sizes of those that succeeded"),
        size("median_bytes", "median size"),
        duration("call_ns", "all calls together; a blocking call includes the copy itself"),
    ),
    needs=("requests", "host_ops"),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, direction and function, the one whose calls took longest first."""
    calls = run.table("host_ops").select(
        "host_op_id", call="name", length=pl.col("end_ns") - pl.col("start_ns")
    )
    failed = pl.col("return_value").fill_null(0) != 0
    by = ["rank", "kind", "copy_kind", "call"]
    return (
        run.table("requests")
        .filter(pl.col("kind").is_in(["memcpy", "memset"]))
        .join(calls, on="host_op_id", how="inner", maintain_order="left")
        .group_by(by)
        .agg(
            copies=(~failed).sum().cast(pl.Int64),
            failed=failed.sum().cast(pl.Int64),
            bytes=pl.col("bytes").filter(~failed).sum(),
            median_bytes=pl.col("bytes").filter(~failed).median().round().cast(pl.Int64),
            call_ns=pl.col("length").sum(),
        )
        .with_columns(is_async=pl.col("call").str.contains("Async", literal=True))
        .sort(by)
        .sort("rank", "call_ns", descending=[False, True], maintain_order=True)
        .select(column.name for column in ANALYSIS.columns)
    )
