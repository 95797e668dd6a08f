"""Segments that are partly free, and what keeps the allocator from giving them back."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, join, number, pct, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.tensor_kinds import add_places

ANALYSIS = Analysis(
    "pinned_segments",
    "What keeps memory that is mostly free from being given back?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        number("address", "address of the segment"),
        size("bytes", "size of the segment"),
        size("free_bytes", "of it, not in use"),
        pct("free_pct", "share of the segment that is free"),
        size("largest_free_bytes", "the largest free block in it"),
        number("blocks", "blocks in use in it"),
        size("pin_bytes", "the largest block in use"),
        text("place", "who allocated that block"),
        text("pool", "the pool of the segment"),
        join("segment_id", "memory_segments.segment_id", "the segment"),
    ),
    needs=("memory_segments",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per segment that is neither full nor empty, the one with most free bytes first."""
    is_free = pl.col("state") == "inactive"
    blocks = (
        run.table("memory_blocks")
        .select("segment_id", "bytes", "state", "stack_id")
        .sort("segment_id", "bytes", descending=[False, True])
    )
    found = blocks.group_by("segment_id").agg(
        free_bytes=pl.col("bytes").filter(is_free).sum(),
        largest_free_bytes=pl.col("bytes").filter(is_free).max(),
        blocks=(~is_free).sum().cast(pl.Int64),
        pin_bytes=pl.col("bytes").filter(~is_free).first(),
        stack_id=pl.col("stack_id").filter(~is_free).first(),
    )
    found = add_places(run, found)
    segments = run.table("memory_segments").select(
        "rank", "device_id", "address", "bytes", "pool", "segment_id"
    )
    return (
        segments.join(found, on="segment_id")
        .filter(pl.col("blocks") > 0, pl.col("free_bytes") > 0)
        .with_columns(free_pct=100.0 * pl.col("free_bytes") / pl.col("bytes"))
        .select(column.name for column in ANALYSIS.columns)
        .sort("free_bytes", "segment_id", descending=[True, False])
    )
