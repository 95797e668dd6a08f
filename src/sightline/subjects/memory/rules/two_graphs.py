"""The last step's results are alive while the next step makes its own: two graphs at once.

Symptom
    Blocks that were there when the recording began are freed in one go, behind the peak; as many
    of the same sizes have been allocated before.

Why it hurts
    `loss = step(batch)` makes the new graph before the name lets go of the old one: for the length
    of a forward pass all activations are there twice, unless a backward pass freed the old ones.

Evidence
    At the peak, blocks that are freed later in the recording, one after the other with next to no
    allocation between them, and blocks of the same sizes that came since. The gain is how much
    lower the peak is when all events are gone through without the old ones.

Threshold
    Four fifths of the old blocks have such a twin, eight of them and three sizes at least; between
    their frees lie allocations of at most a twentieth of their number (ours: a backward pass, which
    frees activations too, allocates a gradient for nearly each); a tenth of the peak.

Fix
    `del loss, logits` at the end of the loop's body; or `loss.item()` and `.detach()` for what is
    kept; or torch.no_grad() where no backward pass follows.

False positives
    A cache that is replaced as a whole.

References
    PyTorch, "Frequently Asked Questions": "My model reports cuda runtime error: out of memory"
    ("Don't hold onto tensors and variables you don't need").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.allocations import follow_allocations, select_memory
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without,
    locate_device,
    name_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import classify_blocks

RULE = Rule("two-graphs", "Two steps' results alive at once", explains=("forward-kept",))
LEAST_PCT, LEAST_BLOCKS, LEAST_SIZES = 10.0, 8, 3
_TWINS, _BETWEEN = 0.8, 0.05


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    for peak in find_device_peaks(run).iter_rows(named=True):
        old, sizes = _find_old(run, peak)
        size, whole = sum_column(old, "bytes"), peak["allocated_bytes"]
        if old.is_empty() or 100 * size < LEAST_PCT * whole:
            continue
        gone = pl.col("allocated").is_null() & (pl.col("released") > peak["event"])
        gain = whole - find_peak_without(run, peak, classify_blocks(run), gone)
        yield build_finding(
            RULE,
            f"{format_bytes(size)} at the peak of {name_device(peak)}, {write_share(size, whole)} "
            "of it, are results of the step before: they are freed in one go only after the next "
            "step has made its own.",
            Evidence(
                [
                    f"{format_several(old.height, 'block')} from before the recording, freed in "
                    "a row behind the peak",
                    f"blocks of the same {format_several(sizes, 'size')} have been allocated "
                    "meanwhile",
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix="let go of the old graph before the next forward pass:  del loss, logits  at "
                "the end of the loop's body (keep loss.item() or .detach()); or run the backward "
                "pass, or torch.no_grad() where there is none",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="a name holds the last step's graph until it is bound to the next one",
                sources=("PyTorch, Frequently Asked Questions: out of memory",),
            ),
            price=price_part(size, gain, whole, "bytes"),
            method="all events gone through again without these blocks",
            confidence="medium",
        )


def _find_old(run: Run, peak: dict[str, Any]) -> tuple[pl.DataFrame, int]:
    """Blocks from before, at the peak and freed in a row behind it; and their number of sizes.

    No rows where they are no whole set that has come again.
    """
    found = follow_allocations(run)
    blocks = select_memory(found, found.blocks, peak)
    at = peak["event"]
    old = blocks.filter(pl.col("allocated").is_null() & (pl.col("released") > at))
    new = blocks.filter(
        (pl.col("allocated") <= at) & (pl.col("released").is_null() | (pl.col("released") > at))
    )
    sizes = old.get_column("bytes").n_unique()
    if old.height < LEAST_BLOCKS or sizes < LEAST_SIZES:
        return old.clear(), 0
    first, last = (int(old.get_column("released").quantile(q, "nearest") or 0) for q in (0.1, 0.9))
    between = blocks.filter(pl.col("allocated").is_between(first, last)).height
    counted = (
        old.group_by("bytes")
        .agg(old=pl.len())
        .join(new.group_by("bytes").agg(new=pl.len()), on="bytes", how="left")
        .select("bytes", twins=pl.min_horizontal("old", pl.col("new").fill_null(0)))
    )
    twins = int(counted.select((pl.col("bytes") * pl.col("twins")).sum()).item())
    if twins < _TWINS * sum_column(old, "bytes") or between > _BETWEEN * old.height:
        return old.clear(), 0
    return old, sizes
