"""Matrix products with so few rows that reading the weights takes longer than multiplying.

Symptom
    A small batch, or decoding one token at a time: m (or n) of 1 to some tens beside weights of
    thousands by thousands.

Why it hurts
    The whole weight is read for a few rows: memory limits, and tensor cores idle. Few output tiles
    do not fill the GPU either, so that even the memory is not used whole.

Evidence
    Shapes of the products' inputs. The gain is a replay in which they read and write at the
    memory's full rate: what a better kernel could win. More rows for the same read win more.

Threshold
    Memory is the lower roof (operations per byte under the device's ridge), and m or n is under
    128, the smaller side of the most efficient output tile (NVIDIA, "Matrix Multiplication
    Background User's Guide": 256 × 128). What lies above the roof is over 5 % of the window
    (TraceLens agent, 2026-08).

Fix
    Larger batches; several requests or tokens at once (continuous batching, speculative decoding);
    weights in 8 or 4 bits; one product for q, k and v.

False positives
    Weights that stay in the L2 cache between two products. Batched products are left out: they are
    mostly attention's, which reads no weights.

References
    NVIDIA, Matrix Multiplication Background User's Guide, "Math And Memory Bounds"; Williams,
    Waterman, Patterson, "Roofline" (CACM 52(4), 2009).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.roofline.operator_roofs import place_operators
from sightline.roofline.operators.work import GEMM
from sightline.subjects.kernels.rules._operators import find_slow_products

RULE = Rule("skinny-gemm", "Matrix products with few rows")
TILE = 128


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not run.rows("host_ops"):
        return
    calls = place_operators(run).filter(
        (pl.col("kind") == GEMM)
        & (pl.col("bound") == "memory")
        & (pl.min_horizontal("m", "n") < TILE)
        & pl.col("batch").is_null()
    )
    yield from find_slow_products(
        run,
        RULE,
        calls,
        "{share} of the window is lost in matrix products that read whole weights for a few rows, "
        "below the memory's rate.",
        cause="with so few rows memory limits the product, and its tiles do not fill the GPU",
        fix=choose_fix(
            run,
            "a larger batch; one product instead of several on the same input",
            pytorch="a larger batch, or several requests at once; weights in 8 or 4 bits; one "
            "product instead of several on the same input",
            serving="more requests at once; weights in 8 or 4 bits; speculative decoding",
            native="batch the products (cublasGemmStridedBatched), or split them along k",
        ),
    )
