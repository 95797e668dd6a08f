"""What is allocated at the peak, by what it holds and by who allocated it.

The rows of a device add up to its peak (`sightline stats memory_peak`), to the byte: what no event
tells of has a row of its own.
"""

from __future__ import annotations

import polars as pl

from sightline.model.columns import RANK, join, make_empty, number, pct, size, text
from sightline.model.declare import Analysis
from sightline.model.run import Run
from sightline.timeline.allocations import MEMORY, select_live
from sightline.timeline.tensor_kinds import EARLIER, classify_blocks

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
        number("blocks", "blocks"),
        size("bytes", "their sizes together"),
        pct("peak_pct", "share of the peak"),
        size("largest_bytes", "the largest of them"),
        join("stack_id", "stacks.stack_id", "the call stack that allocated them"),
    ),
    needs=("memory_events",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kind and call stack, the largest first."""
    blocks = classify_blocks(run)
    parts = [make_empty(ANALYSIS.columns)]
    for peak in run.ask("memory_peak").iter_rows(named=True):
        here = blocks.filter(pl.col(name).eq_missing(peak[name]) for name in MEMORY)
        live = select_live(here, peak["event"])
        if peak["untold_bytes"]:
            untold = pl.DataFrame(
                {"bytes": [peak["untold_bytes"]], "kind": [EARLIER], "confidence": ["high"]}
                | {name: [peak[name]] for name in MEMORY},
                schema_overrides={name: live.schema[name] for name in MEMORY},
            )
            live = pl.concat([live, untold], how="diagonal")
        groups = live.group_by(
            *MEMORY, "kind", "confidence", "place", "module", "stack_id", maintain_order=True
        ).agg(
            blocks=pl.len().cast(pl.Int64),
            bytes=pl.col("bytes").sum(),
            largest_bytes=pl.col("bytes").max(),
        )
        share = 100.0 * pl.col("bytes") / max(peak["allocated_bytes"], 1)
        parts.append(
            groups.with_columns(peak_pct=share)
            .sort("bytes", descending=True, maintain_order=True)
            .select(column.name for column in ANALYSIS.columns)
        )
    return pl.concat(parts)
