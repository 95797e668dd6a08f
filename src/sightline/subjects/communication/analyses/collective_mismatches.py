"""Collectives for which the ranks of a group asked different things, by PyTorch's flight recorder.

The same number in a group must be the same operation on all ranks, and of the same size and type
where its meaning wants that: an all-to-all, a gather and a scatter may differ.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, flag, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.communication.hang_records import list_mismatches

ANALYSIS = Analysis(
    "collective_mismatches",
    "Did all ranks ask for the same collective?",
    (
        text("group", "process group"),
        text("group_description", "what the group is for, as the program named it"),
        number("sequence", "order in the group"),
        RANK,
        text("asked", "what the rank asked for: operation, sizes, types"),
        flag("is_usual", "whether most ranks, or in a tie rank 0, asked for the same"),
        text("place", "where its program did so"),
    ),
    needs=("flight_records",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank of each collective that differs; the usual first."""
    return (
        list_mismatches(run)
        .explode("ranks", "asked", "kinds", "places", empty_as_null=True, keep_nulls=True)
        .with_columns(
            is_usual=pl.col("kinds") == pl.col("kinds").first().over("group", "members", "sequence")
        )
        .rename({"ranks": "rank", "places": "place"})
        .select(c.name for c in ANALYSIS.columns)
    )
