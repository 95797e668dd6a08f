"""What was allocated, by device, for the first screen: where a recording holds allocations."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run


def summarize_memory(run: Run) -> list[dict[str, Any]]:
    """One row per rank and device; `peak_bytes` is the most that was allocated at one time."""
    if not run.rows("memory_events"):
        return []
    size = pl.col("bytes")
    return (
        run.scan("memory_events")
        .group_by("rank", "device_id")
        .agg(
            allocations=(pl.col("action") == "alloc").sum(),
            allocated_bytes=size.filter(pl.col("action") == "alloc").sum(),
            freed_bytes=size.filter(pl.col("action") == "free").sum(),
            peak_bytes=pl.col("allocated_bytes").max(),
            reserved_bytes=pl.col("reserved_bytes").max(),
        )
        .sort("rank", "device_id", nulls_last=True)
        .collect()
        .to_dicts()
    )
