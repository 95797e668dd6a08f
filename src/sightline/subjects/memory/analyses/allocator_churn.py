"""What the caching allocator asks of the driver in each step.

Once a program has its memory, a step should need neither: each request to the driver takes from
tens of microseconds to milliseconds, and giving memory back waits for the device.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, make_empty, number, size
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import follow_allocations
from sightline.subjects.memory.memory_steps import add_step, find_steps

ANALYSIS = Analysis(
    "allocator_churn",
    "How often does a step take memory from the driver, and give it back?",
    (
        RANK,
        number("device_id", "device"),
        number("step", "the step, counted from 0", required=True),
        number("allocations", "blocks that were allocated"),
        number("taken", "segments taken from the driver"),
        size("taken_bytes", "their sizes together"),
        number("given_back", "segments given back"),
        size("given_back_bytes", "their sizes together"),
        number("failures", "allocations that failed"),
    ),
    needs=("memory_events",),
    notes=("Steps are the program's annotations, else told from the optimizer's allocations.",),
)
_TAKEN, _GIVEN = ["segment_alloc", "segment_map"], ["segment_free", "segment_unmap"]


def run(run: Run) -> pl.DataFrame:
    """One row per step of each device; without steps there is none."""
    steps = find_steps(run)
    if steps.is_empty():
        return make_empty(ANALYSIS.columns)
    found = follow_allocations(run)
    named = found.memories.select("memory", "rank", "device_id")
    made = found.blocks.select("memory", event="allocated", action=pl.lit("alloc")).drop_nulls()
    rare = found.rare.select("memory", "event", "action", "bytes").filter(
        pl.col("action").is_in(["oom", *_TAKEN, *_GIVEN])
    )
    events = pl.concat([made, rare], how="diagonal").join(
        steps.select("memory").unique(), on="memory", how="semi"
    )
    action = pl.col("action")
    return (
        add_step(events, steps, "event", "step")
        .group_by("memory", "step")
        .agg(
            allocations=(action == "alloc").sum().cast(pl.Int64),
            taken=action.is_in(_TAKEN).sum().cast(pl.Int64),
            taken_bytes=pl.col("bytes").filter(action.is_in(_TAKEN)).sum(),
            given_back=action.is_in(_GIVEN).sum().cast(pl.Int64),
            given_back_bytes=pl.col("bytes").filter(action.is_in(_GIVEN)).sum(),
            failures=(action == "oom").sum().cast(pl.Int64),
        )
        .join(named, on="memory")
        .select(column.name for column in ANALYSIS.columns)
        .sort("rank", "device_id", "step", nulls_last=True)
    )
