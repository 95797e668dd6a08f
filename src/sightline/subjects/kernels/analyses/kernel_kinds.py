"""What kinds of work the kernels do."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.kernel_kinds import name_kinds

ANALYSIS = Analysis(
    "kernel_kinds",
    "What kinds of work do the kernels do?",
    (
        text("kind", "kind of work, by the kernels' names; null: none that is known"),
        number("kernels", "different kernels of this kind"),
        number("instances", "how often they ran"),
        duration("total_ns", "sum of their durations"),
        pct("window_pct", "total_ns, % of all devices' windows"),
        pct("kernel_pct", "total_ns, % of all rows' total_ns"),
        text("largest", "the kernel that takes most of it", required=True),
    ),
    needs=("device_ops",),
    notes=(
        "Kernels that ran at the same time are each counted: the sum can exceed the window.",
        "Kinds are those of a table of names (sightline/timeline/kernel_kinds.tsv), each row with "
        "its source.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kind, the most expensive first."""
    kernels = run.ask("kernels")
    kernels = kernels.with_columns(kind=name_kinds(kernels.get_column("name")))
    return (
        kernels.group_by("kind", maintain_order=True)
        .agg(
            kernels=pl.len().cast(pl.Int64),
            instances=pl.col("instances").sum(),
            total_ns=pl.col("total_ns").sum(),
            window_pct=pl.col("window_pct").sum(),
            kernel_pct=pl.col("kernel_pct").sum(),
            largest=pl.col("name").first(),
        )
        .sort("total_ns", "kind", descending=[True, False], nulls_last=True)
    )
