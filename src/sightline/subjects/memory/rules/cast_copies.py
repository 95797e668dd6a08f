"""Autocast keeps copies of the weights in half precision beside the weights.

Symptom
    Blocks of the forward pass that are half as large as weights, as many of each size as there are
    weights, and alive at the peak.

Why it hurts
    Under autocast each weight is cast once, and the copy is kept until the outermost autocast block
    ends, for the backward pass and for layers that use the weight again: half of the weights' size
    more. A program that computes no gradients keeps them for nothing.

Evidence
    At the peak, blocks that were there before the recording began or that hold parameters, and
    blocks of exactly half their size that came later. The gain is how much lower the peak is when
    all events are gone through without these.

Threshold
    Half of the weights have such a block, eight blocks and two sizes at least (ours: sizes of
    activations that meet those of weights by chance are few), and they are a tenth of the peak.

Fix
    Hold the weights in that type (model.to(torch.bfloat16)) where there is no training; compute
    under torch.inference_mode(), in which autocast keeps no copies; or
    torch.autocast(..., cache_enabled=False), which casts anew each time.

False positives
    Activations whose sizes are those of half weights.

References
    PyTorch, "Automatic Mixed Precision package": cache_enabled; aten/src/ATen/autocast_mode.cpp,
    `cached_cast`: leaf tensors that require a gradient are kept.
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
from sightline.subjects.memory.allocations import (
    follow_allocations,
    select_live,
    select_memory,
)
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without,
    grade_by_room,
    list_places,
    locate_device,
    name_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import EARLIER, add_places, classify_blocks

RULE = Rule("cast-copies", "Copies of the weights in half precision", explains=("forward-kept",))
LEAST_PCT, LEAST_SHARE, LEAST_BLOCKS, LEAST_SIZES = 10.0, 0.5, 8, 2
_SMALL = 1 << 10  # biases and norms: their sizes tell nothing
_WEIGHTS = ("parameter", EARLIER)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    for peak in find_device_peaks(run).iter_rows(named=True):
        copies, weights = _find_copies(run, peak)
        size, whole = sum_column(copies, "bytes"), peak["allocated_bytes"]
        if (
            copies.height < LEAST_BLOCKS
            or copies.get_column("bytes").n_unique() < LEAST_SIZES
            or 2 * size < LEAST_SHARE * sum_column(weights, "bytes")
            or 100 * size < LEAST_PCT * whole
        ):
            continue
        blocks = classify_blocks(run).with_row_index("block")
        gone = pl.col("block").is_in(copies.get_column("block").implode())
        gain = whole - find_peak_without(run, peak, blocks, gone)
        groups = copies.group_by("place").agg(pl.col("bytes").sum(), blocks=pl.len())
        yield build_finding(
            RULE,
            f"{format_bytes(size)} at the peak of {name_device(peak)}, {write_share(size, whole)} "
            "of it, are in blocks of half the size of the weights: copies of the weights that "
            "autocast makes and keeps.",
            Evidence(
                [
                    f"{format_several(copies.height, 'block')} of half the size of "
                    f"{format_several(weights.height, 'weight')}, in "
                    f"{format_several(copies.get_column('bytes').n_unique(), 'size')}",
                    *list_places(groups),
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix="without training, hold the weights in that type (model.to(torch.bfloat16)) or "
                "compute under torch.inference_mode(), where autocast keeps no copies; else "
                "torch.autocast(..., cache_enabled=False), which casts each time",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="autocast keeps the cast of each weight until its outermost block ends",
                sources=("PyTorch, Automatic Mixed Precision package: cache_enabled",),
            ),
            severity=grade_by_room(peak),
            price=price_part(size, gain, whole, "bytes"),
            method="replay of all memory events without these blocks",
            confidence="medium",
        )


def _find_copies(run: Run, peak: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Blocks at the peak of half a weight's size, no more of a size than weights; and those."""
    found = follow_allocations(run)
    blocks = add_places(run, classify_blocks(run)).with_row_index("block")
    live = select_live(select_memory(found, blocks, peak), peak["event"])
    live = live.filter(pl.col("bytes") >= _SMALL)
    is_weight = pl.col("kind").is_in(_WEIGHTS)
    weights = live.filter(is_weight)
    half = weights.filter(pl.col("bytes") % 2 == 0).select(bytes=pl.col("bytes") // 2)
    counts = half.group_by("bytes").agg(weights=pl.len())
    copies = (
        live.filter(~is_weight & pl.col("kind").is_in(["temporary", "activation"]))
        .join(counts, on="bytes")
        .sort("allocated", maintain_order=True)
        .filter(pl.int_range(pl.len()).over("bytes") < pl.col("weights"))
    )
    return copies, weights
