"""What does a step of each phase cost the host and the device? The table that people make by hand.

A cycle is the time from the begin of one step's range on the host to that of the next one. All
times are of the median step of its phase, beside their sum over all steps of it.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

_REQUESTS = ("prefill_requests", "decode_requests")
_SUMMED = ("cycle_ns", "cpu_span_ns", "gpu_span_ns", "busy_ns", "kernel_ns", "graph_launch_ns")

ANALYSIS = Analysis(
    "engine_cycles",
    "What does a step of each phase cost the host and the device?",
    (
        RANK,
        text("phase", "prefill, decode, mixed, verify, draft or empty; null where unknown"),
        number("steps", "steps of that phase"),
        number("prefill_tokens", "prompt tokens that they computed"),
        number("decode_tokens", "tokens of running requests that they computed"),
        real("requests", "requests in the median step"),
        duration("cycle_ns", "from the start of its range to that of the next, median"),
        duration("cpu_span_ns", "its range on the host, median"),
        duration("gpu_span_ns", "first to last device operation, median"),
        duration("busy_ns", "something ran on the device, median"),
        duration("kernel_ns", "sum of its kernels' times, median"),
        duration("overlap_ns", "kernel_ns less busy_ns: concurrent kernels, median"),
        number("launches", "calls that launch kernels one by one, median"),
        number("graph_launches", "replays of graphs, median"),
        number("graph_kernels", "operations that graphs replayed, median"),
        duration("graph_launch_ns", "time of the host in calls that replay graphs, median"),
        *(duration(f"all_{name}", f"{name} of all steps of that phase") for name in _SUMMED),
    ),
    notes=("busy_ns counts concurrent operations once, kernel_ns each.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and phase, those that take most first. Raises MissingDataError."""
    steps = run.ask("engine_steps")
    has_device = pl.col("busy_ns").is_not_null()
    cycle = pl.col("host_start_ns").shift(-1).over("rank") - pl.col("host_start_ns")
    known = steps.with_columns(
        cycle_ns=cycle.fill_null(pl.col("host_end_ns") - pl.col("host_start_ns")),
        cpu_span_ns=pl.col("host_end_ns") - pl.col("host_start_ns"),
        gpu_span_ns=pl.when(has_device).then("duration_ns"),
        overlap_ns=(pl.col("kernel_ns") - pl.col("busy_ns")).clip(lower_bound=0),
        requests=pl.when(~pl.all_horizontal(pl.col(_REQUESTS).is_null())).then(
            pl.sum_horizontal(_REQUESTS)
        ),
    )
    counts = ("overlap_ns", "launches", "graph_launches", "graph_kernels")
    return (
        known.group_by("rank", "phase")
        .agg(
            pl.col("requests").median(),
            *(pl.col(name).median().round().cast(pl.Int64) for name in (*_SUMMED, *counts)),
            *(_sum_known(name).alias(f"all_{name}") for name in _SUMMED),
            *(_sum_known(name) for name in ("prefill_tokens", "decode_tokens")),
            steps=pl.len().cast(pl.Int64),
        )
        .sort("rank", "all_cycle_ns", "phase", descending=[False, True, False])
        .select(column.name for column in ANALYSIS.columns)
    )


def _sum_known(name: str) -> pl.Expr:
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
