"""Activations that wait for the backward pass fill most of the memory at the peak.

Symptom
    Memory rises through the forward pass and falls through the backward pass.

Why it hurts
    They grow with batch size and sequence length, and limit both.

Evidence
    Blocks allocated in the forward pass and released in the backward pass that are alive at the
    peak (`sightline stats peak_blocks`), and the peak without all of them (replay of all memory
    events). The activations of the largest module are taken off that gain, since they are computed
    again while the backward pass needs them.

Threshold
    Over 40 % of the peak (ours).

Fix
    torch.utils.checkpoint.checkpoint on the repeated block, at the cost of one more forward pass
    through it; a fused attention that does not keep its matrix; a lower precision; a smaller
    micro-batch with accumulated gradients.

False positives
    A model that has room to spare: memory that is there costs nothing.

References
    Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016); PyTorch,
    torch.utils.checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.layer_peak import SCORES
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    grade_by_room,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)

RULE = Rule("activations-kept", "Activations fill the memory")
LEAST_PCT = 40.0
# From a fifth of the activations on, that scores are kept at all comes first (ours).
NOTABLE_PCT = 20.0
_SCORES = pl.col("place").str.contains(SCORES)
_FUSE = (
    "torch.nn.functional.scaled_dot_product_attention in place of the written-out softmax, whose "
    "scores are not kept then; else "
)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    for peak in find_device_peaks(run).iter_rows(named=True):
        whole = peak["allocated_bytes"]
        kept = select_device(run.ask("peak_blocks"), peak).filter(
            pl.col("kind") == "activation", pl.col("confidence") != "low"
        )
        size = sum_column(kept, "bytes")
        if 100 * size < LEAST_PCT * whole:
            continue
        without = select_device(run.ask("memory_what_if"), peak).filter(
            pl.col("of") == "kind", pl.col("without") == "activation"
        )
        again = find_largest(kept.group_by("module").agg(pl.col("bytes").sum()), "bytes")
        gain = max(0, sum_column(without, "gain_bytes") - again)
        scores = sum_column(kept.filter(_SCORES), "bytes")
        yield build_finding(
            RULE,
            f"{format_bytes(size)} of activations wait for the backward pass at the peak of "
            f"{name_device(peak)}, {write_share(size, whole)} of it.",
            Evidence(list_places(kept), where=locate_device(peak)),
            Advice(
                fix=(_FUSE if 100 * scores >= NOTABLE_PCT * size else "")
                + "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) around the "
                "repeated block, or a smaller micro-batch with accumulated gradients",
                verify="sightline stats peak_blocks AFTER: bytes of activation",
                cause="the backward pass needs what the forward pass computed",
                sources=("Chen et al. (2016): sublinear memory cost",),
            ),
            severity=grade_by_room(peak),
            price=price_part(size, gain, whole, "bytes"),
            method="replay of all memory events without them, less the largest module's",
            confidence="medium",
        )
