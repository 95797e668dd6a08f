"""What Triton compiled: how often, how long, from which lines, and with which launches.

A kernel is compiled anew for other types, alignments, compiled-in values or options; each of its
compilations is a kernel of its own. From tritonparse's logs, which have no times of kernels.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "compilations",
    "What did Triton compile, and how long did that take?",
    (
        text("name", "the kernel", required=True),
        number("compilations", "how often it was compiled", required=True),
        number("cache_hits", "how often it was found in the cache instead", required=True),
        duration("compile_ns", "all compilations together, without cache hits"),
        text("longest_stage", "the stage that took most of it"),
        duration("longest_stage_ns", "how long that took"),
        number("launches", "launches that were logged", required=True),
        text("defined_at", "file and first line of the kernel"),
        text("called_from", "the line that needed it first"),
    ),
    needs=("compilations",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel, the longest compiled first."""
    compiled = run.table("compilations").with_columns(is_hit=pl.col("cache_hit").fill_null(False))
    stages = (
        run.table("compile_stages")
        .join(
            compiled.filter(~pl.col("is_hit")).select("compilation_id", "name"), on="compilation_id"
        )
        .group_by("name", "stage")
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", "stage", descending=[True, False])
        .group_by("name", maintain_order=True)
        .agg(longest_stage=pl.col("stage").first(), longest_stage_ns=pl.col("duration_ns").first())
    )
    launches = run.table("logged_launches").group_by("name").agg(pl.col("launches").sum())
    return (
        compiled.group_by("name", maintain_order=True)
        .agg(
            compilations=(~pl.col("is_hit")).sum().cast(pl.Int64),
            cache_hits=pl.col("is_hit").sum().cast(pl.Int64),
            compile_ns=pl.col("duration_ns").filter(~pl.col("is_hit")).sum(),
            defined_at=_name_line("file", "line").first(),
            called_from=_name_line("caller_file", "caller_line").drop_nulls().first(),
        )
        .join(stages, on="name", how="left")
        .join(launches, on="name", how="left")
        .with_columns(pl.col("launches").fill_null(0))
        .sort("compile_ns", "name", descending=[True, False])
        .select(column.name for column in ANALYSIS.columns)
    )


def _name_line(file: str, line: str) -> pl.Expr:
    return pl.concat_str([pl.col(file), pl.col(line).cast(pl.String)], separator=":")
