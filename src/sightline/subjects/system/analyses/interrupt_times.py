"""How long interrupts took from CPU cores."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "interrupt_times",
    "Which interrupts took time from the CPU, and how long did each take?",
    (
        RANK,
        text("kind", "irq, softirq or hrtimer"),
        number("number", "number of the interrupt, or vector of the softirq"),
        text("name", "name of its handler or vector"),
        number("count", "how many"),
        number("cpus", "CPU cores that handled some"),
        duration("total_ns", "all of them together"),
        duration("mean_ns", "mean, rounded"),
        duration("p99_ns", "99 of 100 took no longer (nearest rank)"),
        duration("max_ns", "the longest"),
        number("busiest_cpu", "CPU core that spent most time in them"),
    ),
    needs=("interrupts",),
    notes=("A softirq or a timer can run inside an irq: the sums of kinds may overlap.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per interrupt, the most time first."""
    by = ["rank", "kind", "number", "name"]
    timed = run.table("interrupts").with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    busiest = (
        timed.group_by(*by, "cpu")
        .agg(pl.col("length").sum())
        .sort("length", "cpu", descending=[True, False])
        .unique(by, keep="first", maintain_order=True)
        .select(*by, busiest_cpu="cpu")
    )
    found = timed.group_by(by).agg(
        count=pl.len(),
        cpus=pl.col("cpu").n_unique(),
        total_ns=pl.col("length").sum(),
        mean_ns=pl.col("length").mean().round().cast(pl.Int64),
        p99_ns=pl.col("length").sort().get((0.99 * pl.len()).ceil().cast(pl.Int64) - 1),
        max_ns=pl.col("length").max(),
    )
    joined = found.join(busiest, on=by, how="left", nulls_equal=True)
    most = joined.sort("kind", "number", "name").sort(
        "total_ns", descending=True, maintain_order=True
    )
    return most.select(column.name for column in ANALYSIS.columns)
