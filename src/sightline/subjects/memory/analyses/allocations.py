"""Every block of memory: when it was allocated and released, by whom, and what it holds.

A block is released when its free is requested; it is freed when no stream uses it any more. What
a block holds is concluded from the call stack that allocated it and from when it was released; how
sure that is stands beside it.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, join, number, size, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import follow_allocations
from sightline.subjects.memory.tensor_kinds import add_places, classify_blocks

ANALYSIS = Analysis(
    "allocations",
    "What was allocated, by whom, from when to when?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        text("memory_kind", "device, pinned, ..."),
        number("address", "address"),
        size("bytes", "what the program asked for"),
        time("allocated_ns", "when; null before the recording", required=False),
        time("released_ns", "when its free was requested; null if never", required=False),
        time("freed_ns", "when it was free; null if never", required=False),
        text("kind", "what it holds"),
        text("confidence", "how sure the kind is: high, medium or low"),
        text("place", "the innermost line of the user's own code that allocated it"),
        text("module", "the innermost forward() that allocated it"),
        join("stack_id", "stacks.stack_id", "the call stack that allocated it"),
    ),
    needs=("memory_events",),
    worst="bytes",
)


def run(run: Run) -> pl.DataFrame:
    """One row per block, in the order of the first event that names it."""
    found = follow_allocations(run)
    times = found.events.get_column("time_ns")
    blocks = classify_blocks(run)
    return (
        add_places(run, blocks)
        .with_columns(
            *(
                times.gather(blocks.get_column(name)).alias(f"{name}_ns")
                for name in ("allocated", "released", "freed")
            ),
            pl.col("kind", "confidence").cast(pl.String),
        )
        .join(found.memories, on="memory", how="left", maintain_order="left")
        .select(column.name for column in ANALYSIS.columns)
    )
