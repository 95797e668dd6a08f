"""Sums, distances and products that are written out over memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.subjects.kernels.patterns._sizes import find_widest, get_bytes, keep_passes
from sightline.subjects.kernels.patterns.declare import Keep, Pattern, match_row

_SQUARE = "aten::(?:pow|square|mul)"
# A product that is summed up again is a matrix product where it is so many times what goes in
# (ours: below, the pass over memory is as good).
_BLOWN_UP = 8


def _keep_bias(several: Sequence[Arguments]) -> Keep:
    """A vector that is added to each row of the product: its epilogue can add it."""
    product, bias = several[0].tensor(0), several[0].tensor(1)
    if product is None or bias is None or not product.shape:
        return None
    return 0 if len(bias.shape) == 1 and bias.elements == product.shape[-1] > 1 else None


def _keep_contracted(several: Sequence[Arguments]) -> Keep:
    """Both factors read once, where their broadcast product is far larger and is summed up."""
    a, b, whole = several[0].tensor(0), several[0].tensor(1), find_widest(several[-2])
    summed = find_widest(several[-1]) if len(several) > 1 else whole
    if a is None or b is None or summed is None:
        return None
    size = math.prod(_broadcast(a, b))
    blown_up = size >= _BLOWN_UP * max(a.elements, b.elements) and summed.elements == size
    return get_bytes(a) + get_bytes(b) if blown_up else None


def _keep_distances(several: Sequence[Arguments]) -> Keep:
    """Both sets of points, and the distances, which are the sums over the last dimension."""
    a, b = several[0].tensor(0), several[0].tensor(1)
    if a is None or b is None:
        return None
    shape = _broadcast(a, b)
    if not shape or math.prod(shape) < _BLOWN_UP * max(a.elements, b.elements):
        return None
    written = math.prod(shape[:-1]) * a.element_bytes
    return get_bytes(a) + get_bytes(b) + written


def _broadcast(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """The common shape; nothing where they do not fit."""
    rank = max(len(a.shape), len(b.shape))
    one, other = ((1,) * (rank - len(t.shape)) + t.shape for t in (a, b))
    fits = all(m == n or 1 in (m, n) for m, n in zip(one, other, strict=True))
    return tuple(map(max, one, other)) if fits else ()


PATTERNS = (
    Pattern(
        "bias-behind-product",
        "Bias added after a matrix product",
        match_row("aten::add_?", after="aten::b?mm", keep=_keep_bias),
        cause="a bias is added to a matrix product by a pass of its own over the result",
        fix="torch.nn.functional.linear with bias, or torch.addmm: the product's kernel adds it",
        source="NVIDIA: cuBLASLt, epilogues (CUBLASLT_EPILOGUE_BIAS); PyTorch: torch.addmm",
        with_backward=False,
    ),
    Pattern(
        "squared-error-written-out",
        "Mean squared error written out",
        match_row("aten::sub", _SQUARE, "aten::mean", keep=keep_passes(4)),
        cause="a mean squared error is written out in three operators",
        fix="torch.nn.functional.mse_loss",
        source="PyTorch: torch.nn.functional.mse_loss",
    ),
    Pattern(
        "norm-written-out",
        "Norm of a tensor written out",
        match_row(_SQUARE, "aten::sum", "aten::sqrt_?", keep=keep_passes(1, whole=False)),
        cause="the norm of a tensor is written out: its squares are stored and read again",
        fix="torch.linalg.vector_norm",
        source="PyTorch: torch.linalg.vector_norm",
    ),
    Pattern(
        "clamp-in-two",
        "Two clamps one after the other",
        match_row("aten::clamp_min_?", "aten::clamp_max_?", keep=keep_passes(2)),
        cause="a lower and an upper limit are two passes",
        fix="torch.clamp(x, min, max)",
        source="PyTorch: torch.clamp",
    ),
    Pattern(
        "distances-by-broadcasting",
        "Distances of all pairs by broadcasting",
        match_row(
            "aten::sub",
            "aten::(?:pow|square|mul|abs)",
            "aten::sum",
            "aten::sqrt_? ?",
            keep=_keep_distances,
        ),
        cause="the distances of all pairs are differences of every coordinate, written to memory",
        fix='torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), or a product and two norms',
        source="PyTorch: torch.cdist (compute_mode)",
    ),
    Pattern(
        "product-by-broadcasting",
        "Matrix product by broadcasting",
        match_row("aten::mul", "aten::sum", keep=_keep_contracted),
        cause="a matrix product is written as a broadcast product, stored whole, and a sum over it",
        fix="torch.matmul or torch.einsum, which multiply and add without storing the products",
        source="PyTorch: torch.einsum; NVIDIA: Matrix Multiplication Background User's Guide",
    ),
)
