"""Allocations that failed: what was asked for, and where the memory was.

The free pieces of the moment are rebuilt from the segments that the recording found at its end and
from the blocks that were active at the failure, each rounded up to 512 bytes, the allocator's
smallest block (kMinBlockSize, c10/cuda/CUDACachingAllocator.cpp).
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, join, make_empty, number, size, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import follow_allocations, select_memory
from sightline.subjects.memory.memory_stacks import describe_stacks

ANALYSIS = Analysis(
    "out_of_memory",
    "Which allocations failed, and where was the memory?",
    (
        RANK,
        number("device_id", "device"),
        time("time_ns", "when"),
        number("event", "the event, counted from 0"),
        size("asked_bytes", "what was asked for"),
        size("device_free_bytes", "what the driver still had"),
        size("allocated_bytes", "allocated then"),
        size("reserved_bytes", "taken from the driver by then"),
        size("free_bytes", "of it, in no block that is in use"),
        number("pieces", "pieces that this is in"),
        size("largest_free_bytes", "the largest of them"),
        text("place", "the innermost line of the user's own code that asked"),
        join("stack_id", "stacks.stack_id", "the call stack that asked"),
    ),
    needs=("memory_events",),
)
_BLOCK = 512  # kMinBlockSize


def run(run: Run) -> pl.DataFrame:
    """One row per failure, in order."""
    followed = follow_allocations(run)
    found = (
        followed.rare.filter(pl.col("action") == "oom")
        .rename({"bytes": "asked_bytes"})
        .join(followed.memories, on="memory", how="left")
        .join(describe_stacks(run).select("stack_id", "place"), on="stack_id", how="left")
    )
    if found.is_empty():
        return make_empty(ANALYSIS.columns)
    rows = []
    for row in found.sort("event").iter_rows(named=True):
        active = select_memory(followed, followed.blocks, row).filter(
            (pl.col("allocated") <= row["event"]).fill_null(value=True),
            (pl.col("freed") > row["event"]).fill_null(value=True),
        )
        segments = run.table("memory_segments").filter(
            pl.col("rank") == row["rank"], pl.col("device_id").eq_missing(row["device_id"])
        )
        pieces = _find_gaps(segments, active)
        rows.append(
            {name: row.get(name) for name in (c.name for c in ANALYSIS.columns)}
            | {
                "free_bytes": sum(pieces) if segments.height else None,
                "pieces": len(pieces) if segments.height else None,
                "largest_free_bytes": max(pieces, default=0) if segments.height else None,
            }
        )
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})


def _find_gaps(segments: pl.DataFrame, active: pl.DataFrame) -> list[int]:
    """Sizes of what lies between the active blocks of segments."""
    used = active.select(
        "address", end=pl.col("address") + -(-pl.col("bytes") // _BLOCK) * _BLOCK
    ).sort("address")
    inside = segments.select(start="address", limit=pl.col("address") + pl.col("bytes"))
    placed = used.join_asof(
        inside.sort("start"), left_on="address", right_on="start", check_sortedness=False
    ).filter(pl.col("address") < pl.col("limit"))
    ends = pl.concat(
        [
            inside.select("start", address="start", end="start"),
            placed.select("start", "address", "end"),
            inside.select("start", address="limit", end="limit"),
        ]
    ).sort("start", "address", "end")
    gaps = ends.select(
        "start", gap=pl.col("address").shift(-1).over("start") - pl.col("end")
    ).drop_nulls()
    return [gap for gap in gaps.get_column("gap") if gap > 0]
