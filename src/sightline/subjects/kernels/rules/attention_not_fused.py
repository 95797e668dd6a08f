"""Attention runs as matrix product, softmax, matrix product, through memory each time.

Symptom
    A softmax kernel between two matrix products on one stream, with pointwise kernels (scale,
    mask, dropout) between them.

Why it hurts
    The scores are a matrix of sequence length squared, written and read several times; a fused
    kernel keeps them on chip.

Evidence
    Where operators and shapes were recorded: a softmax over queries × keys between the product that
    makes these scores and the one that takes them, with what stands between, and the backward
    operators of all of them. The gain is a replay in which they take what the products' operations
    take at the rate that a benchmark reached on this GPU (docs/roofline.md). Else such sequences of
    kernel names; the gain is a replay without the softmax and the pointwise kernels between the two
    products. Both are upper bounds.

Threshold
    What is between the products is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    torch.nn.functional.scaled_dot_product_attention with a backend that is fused (flash, memory
    efficient, cuDNN), in fp16 or bf16.

False positives
    A softmax over classes between two layers that are not attention.

References
    Dao et al., "FlashAttention" (2022); PyTorch, scaled_dot_product_attention.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.subjects.kernels.patterns.match import find_patterns
from sightline.subjects.kernels.rules._operators import select_calls
from sightline.subjects.kernels.rules._shared import (
    GEMM,
    POINTWISE,
    SOFTMAX,
    find_shorter_kernels,
    has_kernel,
    list_kernels,
)

RULE = Rule("attention-not-fused", "Attention not fused")
_LANE = ["rank", "device_id", "stream_id"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not has_kernel(run, SOFTMAX):
        return
    written_out = list(find_patterns(run, RULE))
    yield from written_out
    if written_out:
        return
    name = pl.col("name")
    kernels = list_kernels(run).with_columns(
        part=pl.when(name.str.contains(SOFTMAX))
        .then(pl.lit("softmax"))
        .when(name.str.contains(GEMM))
        .then(pl.lit("product"))
        .when(name.str.contains(POINTWISE))
        .then(pl.lit("pointwise"))
        .otherwise(pl.lit("other"))
    )
    # What lies between two products is one stretch; anything else in it breaks the pattern.
    is_product = pl.col("part") == "product"
    between = (
        kernels.with_columns(stretch=is_product.cum_sum().over(_LANE))
        .with_columns(
            closed=pl.col("stretch") < pl.col("stretch").max().over(_LANE),
            softmaxes=(pl.col("part") == "softmax").sum().over(*_LANE, "stretch"),
            others=(pl.col("part") == "other").sum().over(*_LANE, "stretch"),
        )
        .filter(
            ~is_product,
            pl.col("stretch") > 0,
            pl.col("closed"),
            pl.col("softmaxes") == 1,
            pl.col("others") == 0,
        )
    )
    found = find_shorter_kernels(
        run,
        RULE,
        between.with_columns(factor=pl.lit(0.0)),
        "{share} of the window is softmax and elementwise kernels between two matrix products, "
        "which "
        "fused attention keeps on chip.",
        cause="attention is written as separate operations, or no fused backend accepts its inputs",
        fix="use scaled_dot_product_attention in fp16 or bf16 with a mask that the fused backends "
        "support (is_causal=True instead of a tensor)",
        sources=("Dao et al., FlashAttention (2022)",),
        extra=list(_describe_traffic(run, between)),
    )
    if found:
        yield found


def _describe_traffic(run: Run, between: pl.DataFrame) -> Iterator[str]:
    """What the operators between the products read and write at least, by their shapes."""
    moved = sum_column(select_calls(run, between), "moved_bytes")
    if moved:
        yield (
            f"these operators move at least {format_bytes(moved)} through memory, by their shapes"
        )
