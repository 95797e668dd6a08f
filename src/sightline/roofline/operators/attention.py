"""Fused attention: two matrix products forward, five backward (Dao, FlashAttention-2, 2023, 4.1).

A causal mask leaves those pairs of a query and a key whose key is not later: counted exactly, where
papers take half.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.roofline.operators.work import ATTENTION, OperatorWork

Model = Callable[[Arguments], OperatorWork | None]


def _fused(causal: int, *, first: int = 0, heads: int = 1, backward: bool = False) -> Model:
    """Query, key and value stand from `first` on; `heads` is the dimension of the heads."""
    rows = 3 - heads

    def count(args: Arguments) -> OperatorWork | None:
        tensors = [args.tensor(first + i) for i in range(3)]
        flag = args.flag(causal)
        known = [t for t in tensors if t is not None and len(t.shape) == 4]
        if len(known) < 3 or flag is None:
            return None
        query, key, value = known
        many, wide, tall = query.shape[heads], query.shape[3], value.shape[3]
        asked, kept = query.shape[rows], key.shape[rows]
        pairs = query.shape[0] * many * _count_pairs(asked, kept, flag)
        result = Tensor((*query.shape[:3], tall), query.dtype)
        moved = sum(t.stored_bytes for t in (query, key, value, result))
        flop = 2 * pairs * (wide + tall)
        if backward:
            # Scores again, and the gradients of value, scores' weights, query and key; what the
            # forward pass read and wrote is read, a gradient of each is read or written.
            flop = 2 * pairs * (3 * wide + 2 * tall)
            moved *= 2
        sizes = (("q", asked), ("kv", kept), ("heads", many), ("width", wide))
        return OperatorWork(ATTENTION, moved, flop, query.dtype, sizes)

    return count


def _count_pairs(queries: int, keys: int, causal: bool) -> int:
    """Pairs that are multiplied; a causal mask lets query i see keys 0 to i (PyTorch's SDPA)."""
    if not causal:
        return queries * keys
    full = max(0, queries - keys)
    return math.comb(queries - full + 1, 2) + full * keys


MODELS: dict[str, Model] = {
    "aten::_scaled_dot_product_flash_attention": _fused(4),
    "aten::_scaled_dot_product_efficient_attention": _fused(6),
    "aten::_scaled_dot_product_cudnn_attention": _fused(6),
    "aten::_scaled_dot_product_flash_attention_backward": _fused(11, first=1, backward=True),
    "aten::_scaled_dot_product_efficient_attention_backward": _fused(11, first=1, backward=True),
    "aten::_flash_attention_forward": _fused(8, heads=2),
    "aten::_flash_attention_backward": _fused(11, first=1, heads=2, backward=True),
    "flash_attn::_flash_attn_forward": _fused(5, heads=2),
}
