"""How many communication kernels were matched across ranks, by what, and why others were not."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import COMMUNICATION, classify_run
from sightline.timeline.collectives import list_members

ANALYSIS = Analysis(
    "collective_matching",
    "Which communication could be matched across ranks?",
    (
        text("state", "matched, or why not", required=True),
        text("grade", "by: sequence number, order in the group, or kernel name"),
        number("collectives", "collectives; kernels, where they belong to none", required=True),
        number("kernels", "their kernels, over all ranks", required=True),
    ),
    needs=("device_ops",),
    notes=("Over the whole recording. A recording of one rank has nothing to match.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per state and grade."""
    comm = classify_run(run).filter(pl.col("class_") == COMMUNICATION)
    members = list_members(run)
    several = pl.col("rank").n_unique().over("meeting") > 1
    state = (
        pl.when("matched")
        .then(pl.lit("matched"))
        .when(pl.col("group_size") == 1)
        .then(pl.lit("a group of one rank"))
        .when("whole")
        .then(pl.lit("one rank ended before another began"))
        .when(several)
        .then(pl.lit("some ranks of the group are missing, or appear twice"))
        .otherwise(pl.lit("no other rank has it"))
    )
    known = (
        members.with_columns(state=state)
        .group_by("state", "grade")
        .agg(collectives=pl.col("meeting").n_unique(), kernels=pl.len())
    )
    rest = comm.join(members, on="device_op_id", how="anti").height
    bare = pl.DataFrame(
        {
            "state": ["not described, and not alike on all ranks"],
            "grade": [None],
            "collectives": [rest],
            "kernels": [rest],
        },
        schema=known.schema,
    ).filter(pl.lit(rest > 0))
    return pl.concat([known, bare]).sort(
        "kernels", "state", "grade", descending=[True, False, False]
    )
