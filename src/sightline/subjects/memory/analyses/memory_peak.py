"""The moment at which most memory is allocated, on each device.

Of several equal moments the first. Sizes are what the program asked for; `reserved_bytes` is what
the allocator had taken from the driver by then. What a driver, NCCL or cuBLAS take for themselves
is in neither.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, size, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    MEMORY,
    follow_allocations,
    select_live,
    select_memory,
)

ANALYSIS = Analysis(
    "memory_peak",
    "When is most memory allocated, and how much?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        text("memory_kind", "device, pinned, ..."),
        time("time_ns", "when", required=False),
        number("event", "the event after which it is, counted from 0"),
        size("allocated_bytes", "allocated then"),
        size("active_bytes", "allocated, or waiting to be freed, then"),
        size("reserved_bytes", "taken from the driver by then"),
        size("most_active_bytes", "most that was ever active"),
        size("most_reserved_bytes", "most that was ever taken from the driver"),
        number("blocks", "blocks that are allocated then"),
        size("untold_bytes", "of it, in blocks that no event mentions"),
        size("largest_bytes", "the largest block"),
    ),
    needs=("memory_events",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and kind of memory."""
    found = follow_allocations(run)
    peaks = found.peaks.join(found.memories, on="memory").sort(*MEMORY, nulls_last=True)
    rows = []
    for peak in peaks.iter_rows(named=True):
        live = select_live(select_memory(found, found.blocks, peak), peak["event"])
        told = int(live.get_column("bytes").sum())
        rows.append(
            {name: peak.get(name) for name in (c.name for c in ANALYSIS.columns)}
            | {
                "blocks": live.height,
                "untold_bytes": peak["allocated_bytes"] - told,
                "largest_bytes": live.get_column("bytes").max(),
            }
        )
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})
