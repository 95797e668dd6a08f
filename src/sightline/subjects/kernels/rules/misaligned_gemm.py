"""Matrix products whose sizes are not multiples of what tensor cores load at once.

Symptom
    A vocabulary of 30,522 or 50,257, an odd number of classes or features.

Why it hurts
    Rows then begin at addresses that are not multiples of 16 bytes: the kernel loads with narrower
    instructions, or the library takes one without tensor cores.

Evidence
    Shapes of the products' inputs: n or k times the size of an element is no multiple of 16 bytes.
    The gain is a replay in which these products run as near to the roof that a benchmark reached on
    such a device as the best aligned products of the recording do, and at that roof where it has
    none: an upper bound.

Threshold
    16 bytes (NVIDIA, "Matrix Multiplication Background User's Guide": tensor cores are most
    efficient, and before cuBLAS 11 only used, with sizes that are multiples of 16 bytes). Only
    products at under 60 % of their roof (Nsight Compute 2024.1, rule SOLBottleneck). What they
    would save is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Pad the size to a multiple of 8 elements (fp16, bf16) or 64, and ignore the padding.

False positives
    A product that is small for another reason: it stands in `sightline stats operator_efficiency`
    beside others of its size.

References
    NVIDIA, Matrix Multiplication Background User's Guide, "Tensor Core Requirements".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.roofline.operator_roofs import place_operators
from sightline.roofline.operators.arguments import ELEMENT_BYTES
from sightline.roofline.operators.work import GEMM
from sightline.roofline.placement import LATENCY_PCT
from sightline.subjects.kernels.rules._operators import find_slow_products

RULE = Rule("misaligned-gemm", "Matrix products with misaligned sizes")
ALIGNED_BYTES = 16


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all NVIDIA GPUs."""
    if not run.rows("device_ops") or not run.rows("host_ops"):
        return
    nvidia = run.table("devices").filter(pl.col("vendor") == "nvidia")
    size = pl.col("dtype").replace_strict(ELEMENT_BYTES, return_dtype=pl.Int64)
    odd = pl.any_horizontal((pl.col(side) * size) % ALIGNED_BYTES != 0 for side in ("n", "k"))
    # A side of one is a vector: no padding makes a product of it.
    products = (
        place_operators(run)
        .filter((pl.col("kind") == GEMM) & (pl.min_horizontal("m", "n", "k") > 1))
        .join(nvidia, on=["rank", "device_id"], how="semi")
    )
    slow = pl.col("roof_ns") < LATENCY_PCT / 100 * pl.col("kernel_ns")
    calls = _expect_of_aligned(products.filter(odd & slow), products.filter(~odd))
    yield from find_slow_products(
        run,
        RULE,
        calls,
        "Matrix products whose rows are not aligned to 16 bytes take {share} of the window more "
        "than at their roof.",
        cause="n or k is not a multiple of 8 elements of 16 bits (4 of 32)",
        fix=choose_fix(
            run,
            "pad the sizes of the product to multiples of 64, and ignore the padding",
            native="pad the leading dimensions to a multiple of 16 bytes, better of 128",
        ),
    )


def _expect_of_aligned(calls: pl.DataFrame, aligned: pl.DataFrame) -> pl.DataFrame:
    """The calls with `reach_ns` as near to the roof as the best aligned products of their type."""
    kind = ["rank", "device_id", "dtype"]
    best = (
        aligned.drop_nulls("reach_ns")
        .group_by(*kind, "dims")
        .agg(share=pl.col("reach_ns").sum() / pl.col("kernel_ns").sum())
        .group_by(kind)
        .agg(pl.col("share").max().clip(upper_bound=1.0))
    )
    joined = calls.join(best, on=kind, how="left", maintain_order="left")
    return joined.with_columns(reach_ns=pl.col("reach_ns") / pl.col("share").fill_null(1.0)).drop(
        "share"
    )
