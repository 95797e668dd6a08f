"""Calls of every API by name, with their failures: the tally that THAPI's iprof prints."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.sums import select_sums

ANALYSIS = Analysis(
    "call_tally",
    "How often was each API called, how long did it take, and how often did it fail?",
    (
        RANK,
        text("api", "the API, else the layer", required=True),
        text("name", "name of the call", required=True),
        duration("total_ns", "all calls that did not fail together"),
        pct("total_pct", "share of the API's calls"),
        number("calls", "how many, with those that failed"),
        duration("mean_ns", "mean of those that did not fail, rounded"),
        duration("min_ns", "the shortest that did not fail"),
        duration("max_ns", "the longest that did not fail"),
        number("errors", "how many failed"),
        number("processes", "processes that called it"),
        number("threads", "threads that called it"),
    ),
    notes=(
        "A call that failed takes part in `calls` and `errors` only, as iprof counts.",
        "What a call returns is known of CUDA, HIP, Level Zero, OpenCL and MPI where the tracer "
        "recorded it; 'not ready' is not a failure.",
    ),
)
_LAYERS = ("runtime", "driver", "mpi", "library", "openmp")
# CUDA_ERROR_NOT_READY and cudaErrorNotReady, hipErrorNotReady (600), ZE_RESULT_NOT_READY (1).
_NOT_READY = {"cuda": 600, "cudart": 600, "hip": 600, "ze": 1}
_BY = ["rank", "api", "name"]


def run(run: Run) -> pl.DataFrame:
    """One row per API and name, the most time first."""
    found = pl.concat([_sum_calls(run), _take_sums(run)])
    right = pl.col("calls") - pl.col("errors")
    tally = found.group_by(_BY).agg(
        pl.col("total_ns", "calls", "errors").sum(),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        processes=pl.struct("rank", "pid").n_unique().cast(pl.Int64),
        threads=pl.struct("rank", "pid", "tid").n_unique().cast(pl.Int64),
    )
    whole = pl.col("total_ns").sum().over("rank", "api")
    tally = tally.with_columns(
        mean_ns=pl.when(right > 0).then(pl.col("total_ns") / right).round().cast(pl.Int64),
        total_pct=pl.when(whole > 0).then(100 * pl.col("total_ns") / whole),
    )
    order = tally.sort(_BY).sort("total_ns", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)


def _sum_calls(run: Run) -> pl.DataFrame:
    """Calls on each thread, added up by name."""
    api = pl.coalesce("category", "layer").cast(pl.String)
    calls = (
        run.scan("host_ops")
        .filter(
            pl.col("layer").is_in(_LAYERS) & (pl.col("range_kind").fill_null("") != "mark")
        )
        .select(
            "rank", "pid", "tid", "return_value",
            api=api,
            name=pl.col("name").cast(pl.String),
            length=pl.col("end_ns") - pl.col("start_ns"),
        )
        .collect()
    )  # fmt: skip
    ready = pl.col("api").replace_strict(_NOT_READY, default=0, return_dtype=pl.Int64)
    value = pl.col("return_value").fill_null(0)
    failed = (value != 0) & (value != ready)
    length = pl.col("length").filter(~failed)
    return calls.group_by("rank", "pid", "tid", "api", "name").agg(
        calls=pl.len().cast(pl.Int64),
        errors=failed.sum().cast(pl.Int64),
        total_ns=length.sum(),
        min_ns=length.min(),
        max_ns=length.max(),
    )


def _take_sums(run: Run) -> pl.DataFrame:
    """What the profiler had added up itself."""
    sums = select_sums(run).filter(pl.col("kind") == "host")
    is_known = pl.col("calls") > pl.col("errors")
    return sums.select(
        "rank", "pid", "tid",
        api=pl.coalesce("category", "layer").cast(pl.String),
        name=pl.col("name").cast(pl.String),
        calls="calls",
        errors="errors",
        total_ns="duration_ns",
        min_ns=pl.when(is_known).then("shortest_duration_ns"),
        max_ns=pl.when(is_known).then("longest_duration_ns"),
    )  # fmt: skip
