"""What an allocator holds and cannot use: free memory in pieces, and segments that hold nothing.

From the segments and blocks that the recording found at its end. Free memory in a segment of which
no part is in use can be given back to the driver; in a segment that something still uses it serves
only requests of its stream and pool that fit one of its pieces. A recording may list fewer blocks
than a segment holds: what is neither listed as free nor known to be in use counts as neither.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, pct, size
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "fragmentation",
    "How much of what the allocator holds is free, and in which pieces?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        size("reserved_bytes", "taken from the driver"),
        size("active_bytes", "of it, in use, rounding included"),
        size("rounding_bytes", "of what is in use, not asked for by the program"),
        size("free_bytes", "of what is reserved, listed as not in use"),
        size("unused_bytes", "of what is free, in segments that nothing uses"),
        size("pinned_bytes", "of what is free, in segments that something still uses"),
        number("pieces", "free blocks"),
        size("largest_free_bytes", "the largest of them"),
        pct("fragmented_pct", "100 · (1 - largest free block / all that is free)"),
        number("segments", "segments"),
        number("pinned_segments", "segments that are partly free"),
    ),
    needs=("memory_segments",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device."""
    is_free = pl.col("state") == "inactive"
    asked = pl.coalesce("requested_bytes", "bytes")
    blocks = run.table("memory_blocks")
    parts = blocks.group_by("segment_id").agg(
        listed_bytes=pl.col("bytes").sum(),
        listed_free_bytes=pl.col("bytes").filter(is_free).sum(),
        listed_active_bytes=pl.col("bytes").filter(~is_free).sum(),
        rounding_bytes=(pl.col("bytes") - asked).filter(~is_free).sum(),
        pieces=is_free.sum().cast(pl.Int64),
        largest=pl.col("bytes").filter(is_free).max(),
    )
    stated = pl.max_horizontal("active_bytes", "listed_active_bytes")
    is_whole = pl.col("listed_bytes") >= pl.col("bytes")
    active = pl.when(is_whole).then("listed_active_bytes").otherwise(stated)
    # Without blocks nothing is known to be in use but what the segment says of itself.
    free = (
        pl.when(pl.col("listed_bytes") > 0)
        .then("listed_free_bytes")
        .otherwise(pl.col("bytes") - pl.col("active_bytes"))
    )
    used = pl.col("active_bytes") > 0
    found = (
        run.table("memory_segments")
        .select("rank", "device_id", "segment_id", "bytes", "active_bytes")
        .join(parts, on="segment_id", how="left")
        .with_columns(
            pl.col("active_bytes", "rounding_bytes", "pieces", "^listed_.*$").fill_null(0)
        )
        .with_columns(active_bytes=active)
        .with_columns(free=free)
        .group_by("rank", "device_id")
        .agg(
            reserved_bytes=pl.col("bytes").sum(),
            active_bytes=pl.col("active_bytes").sum(),
            rounding_bytes=pl.col("rounding_bytes").sum(),
            free_bytes=pl.col("free").sum(),
            unused_bytes=pl.col("free").filter(~used).sum(),
            pinned_bytes=pl.col("free").filter(used).sum(),
            pieces=pl.col("pieces").sum(),
            largest_free_bytes=pl.col("largest").max(),
            segments=pl.len().cast(pl.Int64),
            pinned_segments=(used & (pl.col("free") > 0)).sum().cast(pl.Int64),
        )
    )
    whole = pl.col("free_bytes")
    share = (
        pl.when(whole > 0).then(100.0 * (1 - pl.col("largest_free_bytes") / whole)).otherwise(0.0)
    )
    return (
        found.with_columns(fragmented_pct=share)
        .select(column.name for column in ANALYSIS.columns)
        .sort("rank", "device_id", nulls_last=True)
    )
