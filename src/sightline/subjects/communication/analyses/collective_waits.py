"""Who waits for whom: per rank, how often it came last, what that added, and how long it waited."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.collectives import list_collectives, list_members

ANALYSIS = Analysis(
    "collective_waits",
    "Which ranks do the others wait for in collectives?",
    (
        RANK,
        text("group", "process group"),
        text("op", "operation as recorded; without metadata, the kernel's name", required=True),
        number("collectives", "matched collectives that it took part in", required=True),
        number("last", "of those, to how many it came last"),
        pct("last_pct", "the same, % of its collectives"),
        duration("added_ns", "how much earlier all could have begun without it, summed"),
        duration("waited_ns", "how long its kernels waited for the last rank's, summed"),
    ),
    needs=("device_ops",),
    notes=(
        "Waiting includes time that compute hides: sightline stats comm_exposure has the exposed "
        "part.",
        "Of ranks that start less apart than  sightline stats clocks  is sure, who is last says "
        "little.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, group and kind, those that add most first."""
    members = select_starting_in(list_members(run).filter("matched"), run.ask("windows"))
    last = list_collectives(run).select("meeting", "adds_ns", rank="last_rank")
    by = ["rank", "group", "op"]
    return (
        members.join(last, on=["meeting", "rank"], how="left")
        .group_by(by)
        .agg(
            collectives=pl.len(),
            last=pl.col("adds_ns").count(),
            added_ns=pl.col("adds_ns").sum(),
            waited_ns=pl.col("wait_ns").sum(),
        )
        .with_columns(last_pct=100 * pl.col("last") / pl.col("collectives"))
        .select(c.name for c in ANALYSIS.columns)
        .sort("added_ns", *by, descending=[True, False, False, False])
    )
