"""When were keys and values moved, between servers or to and from the host; what was exposed?"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.columns import RANK, duration, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving.transfers import list_transfers

ANALYSIS = Analysis(
    "kv_transfers",
    "When were keys and values moved, and what was exposed?",
    (
        RANK,
        text("name", "the engine's range around it"),
        text("direction", "in: to this rank; out: from it"),
        time("start_ns", "start"),
        time("end_ns", "end"),
        duration("duration_ns", "its length"),
        duration("exposed_ns", "of it: no kernel ran on the rank's devices"),
    ),
    worst="exposed_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per transfer, in order of time. Raises MissingDataError where there is none."""
    moves = list_transfers(run)
    if moves.is_empty():
        raise MissingDataError(
            "no transfer of keys and values was recorded",
            why="the recording has no range of a KV connector",
            hint="vLLM's connectors show with Python's stacks, or as NIXL's ranges in Nsight "
            "Systems",
        )
    ops = run.table("device_ops", ["rank", "kind", "start_ns", "end_ns"])
    kernels = ops.filter(pl.col("kind") != "memcpy").select("rank", "start_ns", "end_ns")
    hidden = measure_cover_between(moves, "start_ns", "end_ns", kernels, ["rank"])
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        moves.with_columns(
            duration_ns=length,
            exposed_ns=length - pl.lit(hidden),
            direction=pl.when("is_in").then(pl.lit("in")).otherwise(pl.lit("out")),
        )
        .sort("start_ns", "rank")
        .select(column.name for column in ANALYSIS.columns)
    )
