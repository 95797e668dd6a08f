"""Calls that wait for the GPU: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    API_HINT,
    ROWS,
    limit_rows,
    list_host_ops,
    move_to_session_time,
    require_rows,
)

ANALYSIS = Analysis(
    "cuda_api_sync",
    "Which calls blocked the host until the GPU was done? (as nsys analyze)",
    (
        number("Duration (ns)", "duration", "ns"),
        number("Start (ns)", "start, since the session began", "ns"),
        number("PID", "process"),
        number("TID", "thread"),
        text("API Name", "call, as recorded"),
    ),
    needs=("host_ops",),
    params=(ROWS,),
    notes=("Waits for events, and the driver's own calls that wait, are not counted by nsys.",),
)


def run(run: Run, *, rows: int = 50) -> pl.DataFrame:
    """One row per call, longest first."""
    waits = require_rows(
        list_host_ops(run, "runtime", "driver"), "cuda_api_sync", "CUDA API calls", API_HINT
    ).filter(pl.col("name").str.contains(r"^cuda(?:Device|Stream)Synchronize"))
    ordered = move_to_session_time(waits, run, "start_ns").sort(
        "ns", "start_ns", "host_op_id", descending=[True, False, False]
    )
    return limit_rows(ordered, rows).select(
        pl.col("ns").alias("Duration (ns)"),
        pl.col("start_ns").alias("Start (ns)"),
        pl.col("pid").alias("PID"),
        pl.col("tid").alias("TID"),
        pl.col("name").alias("API Name"),
    )
