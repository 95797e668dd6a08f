"""The last wave of blocks fills few multiprocessors, and all others wait for it.

Symptom
    A kernel with slightly more blocks than the multiprocessors hold at once, or than there are.

Why it hurts
    40 equal blocks on 28 multiprocessors: twelve of them have two blocks, and the others are idle
    half of the time.

Evidence
    Grids, blocks, registers, shared memory and the device's limits: how many blocks run at once.
    The gain is a replay in which each kernel takes what it would with equal shares: an upper bound,
    since blocks that share a multiprocessor may hinder each other, and unequal ones may balance.

Threshold
    Over a tenth of the waves' time is empty (ours), kernels of 10 µs and more that the program
    launches itself, alone on the device, and what could be saved is over 5 % of the window
    (TraceLens agent, 2026-08). It is a note: the shape alone does not show whether blocks are
    bound by their multiprocessor or by the memory that all share.

Fix
    Choose the grid as a multiple of what runs at once, or smaller blocks, or a loop over the grid
    (grid-stride) with one wave of blocks.

False positives
    Kernels at the limit of the memory; blocks of unequal length.

References
    NVIDIA, Matrix Multiplication Background User's Guide, "Wave Quantization"; Nsight Compute's
    rule Tail Effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.rules._launches import (
    FULL_SHARE,
    LEAST_NS,
    keep_factor,
    list_filled,
    name_launch,
    pick_longest,
)
from sightline.subjects.kernels.rules._shared import find_shorter_kernels

RULE = Rule("partial-wave", "A last wave of few blocks")

EVEN_SHARE = 0.9


def check(run: Run) -> Iterator[Finding]:
    """At most one note over all devices."""
    if not run.rows("device_ops"):
        return
    uneven = list_filled(run).filter(
        pl.col("alone") & pl.col("own"),
        pl.col("share") >= FULL_SHARE,
        pl.col("wave") < EVEN_SHARE,
        pl.col("length") >= LEAST_NS,
    )
    if uneven.is_empty():
        return
    kept = uneven.with_columns(factor=keep_factor(pl.col("wave")))
    found = find_shorter_kernels(
        run,
        RULE,
        kept,
        f"{name_launch(pick_longest(kept))}, and takes {{share}} of the window more than if each "
        "had an equal share.",
        cause="a partial last wave takes as long as a full one",
        fix="make the grid a multiple of the blocks that run at once, use smaller blocks, or loop "
        "over the grid with one wave of blocks (grid-stride)",
        sources=("NVIDIA, Matrix Multiplication Background User's Guide: Wave Quantization",),
        confidence="low",
        is_bound=True,
    )
    if found:
        yield replace(found, severity="info")
