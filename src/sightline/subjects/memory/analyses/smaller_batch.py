"""How high the peak would be with a smaller batch.

A linear model: activations, inputs and what the forward and the backward pass need for a moment
grow with the batch; parameters, gradients and the optimizer's state do not. All events are gone
through again with the former scaled, so where the peak moves to another place, that is counted.

`after_low_bytes` is the peak if all that cannot be told grows with the batch, too (blocks of no
known kind or from before the recording, and other scratch memory); `after_high_bytes` if only
activations that the backward pass releases, and inputs, do. Workspaces of libraries, and rounding
to 512 bytes, are in neither.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, make_empty, number, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    MEMORY,
    find_peaks_without,
    follow_allocations,
    select_memory,
)
from sightline.subjects.memory.memory_stacks import BACKWARD, FORWARD
from sightline.subjects.memory.tensor_kinds import EARLIER, classify_blocks, list_unplaced

ANALYSIS = Analysis(
    "smaller_batch",
    "How high would the peak be with a smaller batch?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        text("memory_kind", "device, pinned, ..."),
        real("batch", "the batch, as a part of the recorded one", None),
        size("before_bytes", "the peak as it was"),
        size("after_bytes", "the peak with this batch"),
        size(
            "after_low_bytes",
            "if everything whose dependence on the batch is unknown grows with it",
        ),
        size("after_high_bytes", "if only what surely grows with the batch does"),
    ),
    needs=("memory_events",),
)
_BATCHES = (0.5, 0.25)

_KIND, _PHASE = pl.col("kind"), pl.col("phase")
_SURE = ((_KIND == "activation") & (_PHASE == FORWARD) & (pl.col("confidence") != "low")) | (
    _KIND == "input"
)
_LIKELY = (_KIND == "activation") | (
    (_KIND == "temporary") & _PHASE.is_in([FORWARD, BACKWARD]).fill_null(value=False)
)
_PERHAPS = _KIND.is_in(["temporary", "other", EARLIER])


def run(run: Run) -> pl.DataFrame:
    """Rows for half and a quarter of the batch, where anything is known to grow with it."""
    found = follow_allocations(run)
    columns = ["allocated", "released", "bytes", "kind", "confidence", "phase"]
    parts = [make_empty(ANALYSIS.columns)]
    for peak in run.ask("memory_peak").iter_rows(named=True):
        sums = select_memory(found, found.events, peak).select("event", "allocated_bytes")
        blocks = pl.concat(
            select_memory(found, part, peak).select(columns)
            for part in (classify_blocks(run), list_unplaced(run))
        )
        if blocks.filter(_SURE).is_empty():
            continue
        growing = [
            blocks.filter(grows) for grows in (_SURE, _SURE | _LIKELY, _SURE | _LIKELY | _PERHAPS)
        ]
        for batch in _BATCHES:
            high, after, low = (_scale(sums, part, batch) for part in growing)
            row = {name: peak[name] for name in MEMORY} | {
                "batch": batch,
                "before_bytes": peak["allocated_bytes"],
                "after_bytes": after,
                "after_low_bytes": low,
                "after_high_bytes": high,
            }
            parts.append(pl.DataFrame([row], schema={c.name: c.dtype for c in ANALYSIS.columns}))
    return pl.concat(parts)


def _scale(sums: pl.DataFrame, growing: pl.DataFrame, batch: float) -> int:
    """The peak if these blocks are of `batch` times their bytes."""
    saved = growing.select(
        "allocated",
        "released",
        (pl.col("bytes") - (pl.col("bytes") * batch).cast(pl.Int64)).alias("bytes"),
        group=pl.lit(0, pl.Int64),
    )
    return find_peaks_without(sums, saved, 1)[0]
