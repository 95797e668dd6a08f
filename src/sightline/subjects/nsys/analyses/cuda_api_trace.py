"""Every CUDA API call in order of start: nsys calls it cuda_api_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    API_HINT,
    declare_name,
    list_host_ops,
    move_to_session_time,
    require_rows,
    strip_api_version,
)

ANALYSIS = Analysis(
    "cuda_api_trace",
    "Which CUDA API calls were made, one after the other? (as nsys stats)",
    (
        number("Start (ns)", "start, since the session began", "ns"),
        number("Duration (ns)", "duration", "ns"),
        declare_name("Name", "API function"),
        number("Result", "return value"),
        number("CorrID", "number that ties it to its GPU work"),
        number("Pid", "process"),
        number("Tid", "thread"),
        number("T-Pri", "scheduling priority of the thread"),
        text("Thread Name", "name of the thread"),
    ),
    needs=("host_ops",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per call, in order of start."""
    threads = run.table("threads").select("rank", "pid", "tid", "thread_name", "priority")
    calls = require_rows(
        list_host_ops(run, "runtime", "driver"), "cuda_api_trace", "CUDA API calls", API_HINT
    )
    calls = move_to_session_time(calls, run, "start_ns").join(
        threads.unique(["rank", "pid", "tid"]),
        on=["rank", "pid", "tid"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return calls.sort("start_ns", "host_op_id").select(
        pl.col("start_ns").alias("Start (ns)"),
        pl.col("ns").alias("Duration (ns)"),
        strip_api_version().alias("Name"),
        pl.col("return_value").alias("Result"),
        pl.col("correlation_id").alias("CorrID"),
        pl.col("pid").alias("Pid"),
        pl.col("tid").alias("Tid"),
        pl.col("priority").alias("T-Pri"),
        pl.col("thread_name").alias("Thread Name"),
    )
