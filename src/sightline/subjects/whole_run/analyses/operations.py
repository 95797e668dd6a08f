"""Which operations is each device's time made of?

Every moment of the window in which something runs is one operation's own: of operations at once,
compute comes before communication and communication before copies; of one class the first.
So the rows of a part sum to that part of `breakdown`, which sums of durations do not.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.own_time import list_operations

ANALYSIS = Analysis(
    "operations",
    "Which operations is each device's time made of?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("part", "compute, exposed_comm, exposed_copy or unknown", required=True),
        text("name", "kernel, copy or memset, as recorded", required=True),
        text("operator", "innermost framework operator around its launch"),
        text("outer_operator", "outermost framework operator around its launch"),
        text("place", "innermost nn.Module or annotation of the program around its launch"),
        number("instances", "how often it ran"),
        duration("total_ns", "sum of its durations in the window"),
        duration("own_ns", "what of it no other operation has"),
    ),
    needs=("device_ops",),
    notes=("own_ns of a device's rows sum to its compute, exposed communication and copies.",),
)

_KEY = ["rank", "device_id", "part", "name", "operator", "outer_operator", "place"]


def run(run: Run) -> pl.DataFrame:
    """One row per device, part, name and where it was launched, the largest own time first."""
    return (
        list_operations(run)
        .rename({"class_": "part"})
        .group_by(_KEY)
        .agg(
            instances=pl.len(),
            total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            own_ns=pl.col("own_ns").sum(),
        )
        .with_columns(pl.col("operator", "outer_operator").cast(pl.String))
        .sort("own_ns", *_KEY, descending=[True, *[False] * len(_KEY)])
    )
