"""Copies, casts and fills that nobody needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import polars as pl

from sightline.roofline.operators.arguments import Arguments
from sightline.subjects.kernels.patterns._sizes import get_bytes, has_equal_shapes
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import (
    Keep,
    Pattern,
    keep_nothing,
    match_each,
    match_row,
)

_PRODUCT = "aten::(?:mm|addmm|bmm|baddbmm)"
_POINTWISE = (
    "aten::(?:relu|gelu|silu|sigmoid|tanh|exp|softplus|mul|add|sub|div|clamp|clamp_min|neg)_?"
)
# A cache that was copied at so many lengths grows (ours: at two or three it may be a batch of
# other sequences), where what is added is a small part of it.
_LENGTHS, _SMALL_PART = 4, 16


def _keep_clone(several: Sequence[Arguments]) -> Keep:
    """x.clone() and an operator in place on it: reads once, and writes once."""
    copied, changed = several[0], several[1].tensor(0)
    if not has_equal_shapes(copied.tensor(0), copied.tensor(1), changed):
        return None
    return get_bytes(changed) + sum(get_bytes(t) for t in several[1].tensors())


def _keep_overwritten(several: Sequence[Arguments]) -> Keep:
    """A fill of what the copy behind it overwrites whole: gone."""
    return 0 if has_equal_shapes(several[0].tensor(0), several[1].tensor(0)) else None


def _keep_cast_back(several: Sequence[Arguments]) -> Keep:
    """From 16 bits to 32, operators, and back: one pass in 16 bits does it, in 32 inside."""
    first, last = several[0], several[-1]
    wide, narrow = first.tensor(0), first.tensor(1)
    back, given = last.tensor(0), last.tensor(1)
    if wide is None or narrow is None or back is None or given is None:
        return None
    if not has_equal_shapes(narrow, back) or not has_equal_shapes(wide, given):
        return None
    return 2 * get_bytes(narrow) if wide.element_bytes > narrow.element_bytes else None


def _keep_transposed(several: Sequence[Arguments]) -> Keep:
    """copy_(to, from) of a matrix that lies transposed: the product could read it so."""
    to, given = several[0].tensor(0), several[0].tensor(1)
    if to is None or given is None or to.strides is None or given.strides is None:
        return None
    if not has_equal_shapes(to, given) or len(to.shape) not in (2, 3) or min(to.shape[-2:]) < 2:
        return None
    return 0 if to.strides[-1] == 1 and given.strides[-2] == 1 != given.strides[-1] else None


def _keep_repeated_heads(args: Arguments) -> Keep:
    """copy_ of keys or values [batch, heads, repeats, tokens, width], expanded over the repeats."""
    given = args.tensor(1)
    if given is None or given.strides is None or len(given.shape) != 5 or given.shape[2] < 2:
        return None
    return 0 if given.strides[2] == 0 else None


def _keep_expanded(args: Arguments) -> Keep:
    """copy_ of what is expanded: each element is written several times."""
    to, given = args.tensor(0), args.tensor(1)
    if to is None or given is None or given.elements < 2 or to.dtype != given.dtype:
        return None
    if given.strides is None:
        return 0 if to.elements > given.elements else None
    grown = to.elements > given.elements or get_bytes(given) > given.stored_bytes
    return 0 if grown else None


def _find_growing(calls: Calls) -> pl.DataFrame:
    """cat of a tensor with a small part, again and again while it grows along one dimension."""
    lengths: dict[tuple[object, ...], set[int]] = defaultdict(set)
    growing: dict[int, tuple[object, ...]] = {}
    for kind, (name, _) in enumerate(calls.kinds):
        shapes = calls.shapes[kind]
        if name != "aten::cat" or not shapes or not _is_list_of_two(shapes[0]):
            continue
        held, added = shapes[0]
        differ = [i for i, (m, n) in enumerate(zip(held, added, strict=True)) if m != n]
        if len(differ) == 1 and added[differ[0]] * _SMALL_PART <= held[differ[0]]:
            along = differ[0]
            growing[kind] = (along, *held[:along], None, *held[along + 1 :])
            lengths[growing[kind]].add(held[along])
    meant = [kind for kind, of in growing.items() if len(lengths[of]) >= _LENGTHS]
    return keep_nothing(calls.table.filter(pl.col("kind").is_in(meant)))


def _is_list_of_two(shapes: object) -> bool:
    if not isinstance(shapes, list) or len(shapes) != 2:
        return False
    held, added = shapes
    both = isinstance(held, list) and isinstance(added, list)
    return both and len(held) == len(added) >= 3 and all(type(n) is int for n in held + added)


PATTERNS = (
    Pattern(
        "cast-there-and-back",
        "Casts to fp32 and back around operators",
        match_row(
            "aten::copy_", _POINTWISE, f"{_POINTWISE} *", "aten::copy_", keep=_keep_cast_back
        ),
        cause="tensors of 16 bits are cast to fp32 for an operator or two, and back",
        fix="remove .float(): elementwise operators compute in fp32 inside (their opmath type); "
        "or torch.compile, which fuses the casts",
        source="PyTorch: Automatic Mixed Precision; ATen/OpMathType.h",
    ),
    Pattern(
        "clone-before-in-place",
        "Copy before an in-place operator",
        match_row(
            "aten::copy_",
            "aten::(?:add|mul|sub|div|relu|clamp|clamp_min|masked_fill|sigmoid|tanh)_",
            keep=_keep_clone,
        ),
        cause="a tensor is cloned and then changed in place, which reads and writes it twice",
        fix="use the out-of-place operator: it reads the original and writes the result",
        source="PyTorch: torch.Tensor.clone, in-place operations",
    ),
    Pattern(
        "fill-before-copy",
        "Fill that is overwritten at once",
        match_row("aten::(?:zero_|fill_)", "aten::copy_", keep=_keep_overwritten, meant=1),
        cause="tensors are filled right before a copy of the same shape overwrites them",
        fix="torch.empty (empty_like) instead of zeros, where everything is overwritten",
        source="PyTorch: torch.empty; PyTorch Performance Tuning Guide",
        confidence="low",
        with_backward=False,
    ),
    Pattern(
        "transposed-copy-before-product",
        "Transposed copy before a matrix product",
        match_row("aten::copy_", before=_PRODUCT, keep=_keep_transposed),
        cause="a transposed matrix is copied before a product that could read it without a copy",
        fix="remove .contiguous(): cuBLAS multiplies transposed operands",
        source="NVIDIA: cuBLAS, cublasOperation_t; PyTorch: torch.Tensor.contiguous",
    ),
    Pattern(
        "repeated-heads",
        "Keys and values repeated for grouped queries",
        match_each("aten::copy_", _keep_repeated_heads),
        cause="keys and values of grouped-query attention are copied for each query head",
        fix="scaled_dot_product_attention(..., enable_gqa=True), or flash-attn, which takes fewer "
        "heads of keys and values",
        source="PyTorch: scaled_dot_product_attention (enable_gqa)",
        with_backward=False,
    ),
    Pattern(
        "broadcast-written-to-memory",
        "Broadcast tensors written to memory",
        match_each("aten::copy_", _keep_expanded),
        cause="tensors are repeated in memory, where operators would broadcast them",
        fix="torch.Tensor.expand instead of repeat or repeat_interleave, without .contiguous()",
        source="PyTorch: torch.Tensor.expand (allocates no memory), torch.Tensor.repeat (copies)",
        with_backward=False,
    ),
    Pattern(
        "growing-cache",
        "Cache that grows by copying",
        _find_growing,
        cause="a tensor grows by cat, which copies all of it for each small part that is added",
        fix="a tensor of the final size that is written in place (transformers: StaticCache, "
        'cache_implementation="static")',
        source="Hugging Face Transformers: KV cache strategies (static cache)",
        with_backward=False,
    ),
)
