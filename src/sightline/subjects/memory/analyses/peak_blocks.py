"""What is allocated at the peak, by what it holds and by who allocated it.

The rows of a device add up to its peak (`sightline stats memory_peak`), to the byte: what no event
tells of has a row of its own.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.columns import RANK, join, make_empty, number, pct, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    MEMORY,
    follow_allocations,
    select_live,
    select_memory,
)
from sightline.subjects.memory.tensor_kinds import (
    EARLIER,
    add_places,
    classify_blocks,
    list_unplaced,
)

ANALYSIS = Analysis(
    "peak_blocks",
    "What fills the memory at the peak?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        text("memory_kind", "device, pinned, ..."),
        text("kind", "what the blocks hold"),
        text("confidence", "how sure the kind is: high, medium or low"),
        text("place", "the innermost line of the user's own code that allocated them"),
        text("module", "the innermost forward() that allocated them"),
        number("blocks", "blocks; null where the recording has no addresses"),
        size("bytes", "their sizes together"),
        pct("peak_pct", "share of the peak"),
        size("largest_bytes", "the largest of them"),
        join("stack_id", "stacks.stack_id", "the call stack that allocated them"),
    ),
    needs=("memory_events",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kind and call stack, the largest first."""
    found, blocks, unplaced = follow_allocations(run), classify_blocks(run), list_unplaced(run)
    parts = [make_empty(ANALYSIS.columns)]
    for peak in run.ask("memory_peak").iter_rows(named=True):
        live, changes = (
            select_live(select_memory(found, rows, peak), peak["event"])
            .group_by("kind", "confidence", "stack_id", maintain_order=True)
            .agg(
                blocks=pl.len().cast(pl.Int64),
                bytes=pl.col("bytes").sum(),
                largest_bytes=pl.col("bytes").max(),
            )
            .with_columns(pl.col("kind", "confidence").cast(pl.String))
            for rows in (blocks, unplaced)
        )
        changes = changes.filter(pl.col("bytes") != 0).drop("blocks", "largest_bytes")
        untold = peak["untold_bytes"] - sum_column(changes, "bytes")
        groups = pl.concat([live, changes], how="diagonal")
        if untold:
            rest = pl.DataFrame({"bytes": [untold], "kind": [EARLIER], "confidence": ["high"]})
            groups = pl.concat([groups, rest], how="diagonal")
        share = 100.0 * pl.col("bytes") / max(peak["allocated_bytes"], 1)
        declared = {column.name: column.dtype for column in ANALYSIS.columns}
        parts.append(
            add_places(run, groups)
            .with_columns(
                *(pl.lit(peak[name], declared[name]).alias(name) for name in MEMORY),
                peak_pct=share,
            )
            .sort("bytes", descending=True, maintain_order=True)
            .select(*declared)
        )
    return pl.concat(parts)
