"""Several large temporaries of one layer make up much of the peak.

Symptom
    Memory has a spike in each layer, of as many equal blocks as one of its formulas has terms.

Why it hurts
    An expression that is written out, such as a softmax (scores, less their maximum, exp, divided
    by the sum), holds each of its steps as a whole tensor until the last is made. The whole run
    needs a device that is as large as that moment.

Evidence
    Blocks at the peak that one layer (or function) allocated and frees again, one of each call
    stack, and at least half as large as the largest of them. The gain is how much lower the peak is
    when all events are gone through without any temporaries of this layer that are as large, in
    every layer and step; less one of them where no operator is known that needs none. Where an
    attention is written out, blocks of the size of its scores count, too, that autograd allocates
    on the way back through its steps.

Threshold
    A peak that is 15 % lower without them (ours, as for one tensor).

Fix
    Attention: torch.nn.functional.scaled_dot_product_attention, which never writes the T × T
    scores. Else in place, in pieces, by a fused operator, or `del` of each when the next is made.

False positives
    A model whose weights leave room enough: memory that is there costs nothing.

References
    Dao et al., "FlashAttention" (2022), section 3.1; PyTorch, scaled_dot_product_attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.layer_peak import (
    LAYER,
    SCORES,
    find_layer_blocks,
    find_score_blocks,
    list_blocks_of_size,
    list_large_of_layer,
)
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without_blocks,
    grade_by_room,
    list_places,
    locate_device,
    name_device,
    write_share,
)

RULE = Rule("peak-set-by-one-layer", "One layer's temporaries set the peak")
LEAST_PCT = 15.0
_FUSED_ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention in place of the written-out softmax: it "
    "never writes the scores; or in place (scores.sub_(max).exp_().div_(sum)), which leaves one of "
    "these blocks"
)
_IN_PLACE = (
    "work in place (mul_, add_, out=), by a fused operator (torch.compile), or in pieces; and del "
    "each of these when the next is made"
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for each device."""
    for peak in find_device_peaks(run).iter_rows(named=True):
        blocks, scores = find_layer_blocks(run, peak), find_score_blocks(run, peak)
        if sum_column(scores, "bytes") > sum_column(blocks, "bytes"):
            found = _judge_scores(run, peak, scores)
        else:
            found = _judge_layer(run, peak, blocks)
        if found is not None:
            yield found


def _judge_layer(run: Run, peak: dict[str, Any], blocks: pl.DataFrame) -> Finding | None:
    size = sum_column(blocks, "bytes")
    if 100 * size < LEAST_PCT * peak["allocated_bytes"]:
        return None
    scores = blocks.filter(pl.col("place").str.contains(SCORES))
    is_attention = 2 * sum_column(scores, "bytes") > size
    layer = blocks.select(LAYER).item(0, 0)
    return _make_finding(
        peak,
        blocks,
        find_peak_without_blocks(run, peak, list_large_of_layer(run, peak, blocks)),
        f"{layer} holds {format_several(blocks.height, 'temporary', 'temporaries')} at once",
        stays=0 if is_attention else find_largest(blocks, "bytes"),
        fix=_FUSED_ATTENTION if is_attention else _IN_PLACE,
        title=None if blocks.item(0, "module") else "One function's temporaries set the peak",
        method="replay of all memory events without these, in every layer and step",
    )


def _judge_scores(run: Run, peak: dict[str, Any], scores: pl.DataFrame) -> Finding | None:
    """Of an attention that is written out, whose way back autograd's own frames allocate."""
    each, count = find_largest(scores, "largest_bytes"), sum_column(scores, "blocks")
    return _make_finding(
        peak,
        scores,
        find_peak_without_blocks(run, peak, list_blocks_of_size(run, peak, each)),
        f"An attention that is written out holds {format_several(count, 'tensor')} of "
        f"{format_bytes(each)} at once, with its backward pass",
        stays=0,
        fix=_FUSED_ATTENTION,
        title="Attention's scores set the peak",
        method="replay of all memory events without blocks of this size of the softmax and of "
        "its backward steps",
    )


def _make_finding(
    peak: dict[str, Any],
    blocks: pl.DataFrame,
    lower: int,
    what: str,
    *,
    stays: int,
    fix: str,
    title: str | None,
    method: str,
) -> Finding | None:
    """None where the peak would hardly be lower."""
    size, whole = sum_column(blocks, "bytes"), peak["allocated_bytes"]
    gain = max(0, min(size, whole - lower) - stays)
    if 100 * gain < LEAST_PCT * whole:
        return None
    return build_finding(
        RULE,
        f"{what}: {format_bytes(size)}, {write_share(size, whole)} of the peak of "
        f"{name_device(peak)}.",
        Evidence(
            [
                *list_places(blocks, most=4),
                f"the peak is {format_bytes(whole)}, without these {format_bytes(lower)}",
            ],
            where=locate_device(peak),
        ),
        Advice(
            fix=fix,
            verify="sightline stats memory_peak AFTER: allocated_bytes",
            cause="each step of a written-out expression is a tensor of its own",
            sources=("Dao et al. (2022): FlashAttention",),
        ),
        severity=grade_by_room(peak),
        price=price_part(size, gain, whole, "bytes"),
        title=title,
        method=method,
        confidence="medium",
    )
