"""CPU page faults of unified memory by what caused them: nsys calls it um_cpu_page_faults_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "um_cpu_page_faults_sum",
    "Which CPU code touched unified memory that was on the GPU? (as nsys stats)",
    (
        number("CPU Page Faults", "page faults"),
        text("CPU Instruction Address", "function that caused them", required=True),
    ),
    needs=("page_faults",),
    notes=("Recorded with --cuda-um-cpu-page-faults=true.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per function, most faults first."""
    return (
        run.table("page_faults")
        .filter(pl.col("side") == "cpu")
        .group_by(pl.col("function").fill_null("unknown").alias("CPU Instruction Address"))
        .agg(pl.col("count").sum().alias("CPU Page Faults"))
        .sort("CPU Page Faults", "CPU Instruction Address", descending=[True, False])
    )
