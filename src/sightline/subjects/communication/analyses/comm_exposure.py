"""What exposed communication consists of: waiting, pipelines, small, slow and other transfers."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.communication import partition_exposed

ANALYSIS = Analysis(
    "comm_exposure",
    "What does exposed communication consist of?",
    (
        RANK,
        number("device_id", "device", required=True),
        duration("window_ns", "length of the window"),
        duration("pipeline_ns", "send and receive between pipeline stages"),
        duration("small_ns", "collectives of up to 1 MiB, after the last rank has come"),
        duration("slow_ns", "collectives below half of their own group's best bandwidth"),
        duration("transfer_ns", "other communication, after the last rank has come"),
        duration("waiting_ns", "this rank's kernel was there, but not every rank's yet"),
    ),
    needs=("device_ops",),
    notes=(
        "The five parts sum to exposed_comm_ns in `breakdown` exactly.",
        "waiting_ns is known only where the ranks' collectives could be matched (group and order) "
        "and the clocks agree, and where one of many of the same size takes ten times as long as "
        "the others; otherwise waiting is counted in the other parts.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device."""
    return partition_exposed(run)
