"""How far the ranks of NCCL's communicators had come, by its RAS.

A rank that has launched fewer collectives than others is late, or stuck before the next one; the
others wait. One operation is no sign: between two answers of a running job ranks differ by it.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, numbers, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "communicator_progress",
    "Which ranks of a communicator have launched fewer collectives than the others?",
    (
        text("group", "hash of the communicator", required=True),
        number("group_size", "ranks in the communicator"),
        text("op", "kind of collective; null for all together"),
        number("most", "launched by the rank that is furthest"),
        number("least", "launched by the rank that is furthest behind"),
        numbers("behind", "ranks that have launched fewer than the furthest", "rank"),
        numbers("gone", "ranks that gave no answer", "rank"),
        text("state", "of those, dead, unresponsive or missing"),
    ),
    needs=("communicator_ranks",),
    notes=("RAS shows one moment: query it again, and see whether the same ranks are behind.",),
)

GONE = ("dead", "unresponsive", "missing")
_BY = ["group", "group_size", "op"]


def run(run: Run) -> pl.DataFrame:
    """One row per communicator and kind, those with ranks that are gone or far behind first."""
    rows = run.table("communicator_ranks")
    is_gone = pl.col("state").is_in(GONE)
    gone = (
        rows.filter(is_gone)
        .group_by("group")
        .agg(
            gone=pl.col("member").unique().sort(),
            state=pl.col("state").cast(pl.Enum(GONE)).min().cast(pl.String),
        )
    )
    # What only ranks that are gone have a row of, says nothing of kinds.
    kinds = rows.filter(~is_gone | pl.len().over("group").eq(is_gone.sum().over("group")))
    late = pl.col("launched") < pl.col("launched").max()
    return (
        kinds.group_by(_BY)
        .agg(
            most=pl.col("launched").max(),
            least=pl.col("launched").min(),
            behind=pl.col("member").filter(late).sort(),
        )
        .join(gone, on="group", how="left")
        .with_columns(
            pl.col("gone").fill_null([]), spread=(pl.col("most") - pl.col("least")).fill_null(0)
        )
        .sort(
            pl.col("gone").list.len() > 0,
            "spread",
            "group",
            "op",
            descending=[True, True, False, False],
            nulls_last=True,
        )
        .select(c.name for c in ANALYSIS.columns)
    )
