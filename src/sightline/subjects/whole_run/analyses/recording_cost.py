"""How much slower steps were while their operators were recorded."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.step_usage import measure_recording_cost

ANALYSIS = Analysis(
    "recording_cost",
    "How much slower were the recorded steps?",
    (
        RANK,
        duration("recorded_step_ns", "median step in which operators were recorded"),
        duration("undisturbed_step_ns", "median step of the same run in which they were not"),
        pct("slower_pct", "% by which the former is longer; below 0 it is the run's own scatter"),
        number("recorded_steps", "steps of the first kind"),
        number("undisturbed_steps", "steps of the second kind"),
    ),
    needs=("host_ops",),
    notes=(
        "Steps without recording are there with --steps WAIT:WARMUP:ACTIVE, or once PyTorch's "
        "profiler has stopped.",
        "The first step, and those next to the recording, count on neither side.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank with three steps of either kind."""
    slower = 100 * (pl.col("recorded_step_ns") / pl.col("undisturbed_step_ns") - 1)
    return (
        measure_recording_cost(run)
        .with_columns(
            pl.col("recorded_step_ns", "undisturbed_step_ns").round().cast(pl.Int64),
            slower_pct=slower,
        )
        .select(c.name for c in ANALYSIS.columns)
    )
