"""What an operator has to do at least: operations and bytes, and on which pipe."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds of operators, as they are shown.
GEMM, CONVOLUTION, ATTENTION = "gemm", "convolution", "attention"
NORMALIZATION, SOFTMAX, REDUCTION = "normalization", "softmax", "reduction"
ELEMENTWISE, MOVEMENT = "elementwise", "movement"


@dataclass(frozen=True)
class OperatorWork:
    """Operations (null where they do not matter), bytes, and the type of the products' inputs.

    `moved_bytes` is the least traffic: each input is read once and each output written once.
    `dims` names the sizes that the work follows from: m, n, k of a product.
    """

    kind: str
    moved_bytes: int
    flop: int | None = None
    dtype: str | None = None
    dims: tuple[tuple[str, int], ...] = ()
