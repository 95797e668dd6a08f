"""Masks, sorts and one-hot matrices, where an index or a maximum would do."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.roofline.operators.arguments import Arguments
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.declare import Keep, Pattern, match_each, match_row

_MASK = 512  # ours: a smaller mask takes no time that anybody sees
# Vocabularies of language models begin here; smaller sorts are no sampling (ours).
_VOCABULARY = 16_384


def _keep_one_hot(several: Sequence[Arguments]) -> Keep:
    """A product with a one-hot matrix: rows of the other one, read and written."""
    ones, product = several[0].tensor(0), several[-1].tensors()
    factors = product[-2:]
    if ones is None or len(factors) < 2 or ones.dtype not in ("long int", "long", "int", "bool"):
        return None
    a, b = factors
    if a.elements != ones.elements or not a.shape or a.shape[-1] != ones.shape[-1]:
        return None
    return 2 * a.elements // a.shape[-1] * b.shape[-1] * b.element_bytes


def _keep_none(args: Arguments) -> Keep:
    return 0 if args.tensors() else None


def _keep_mask(args: Arguments) -> Keep:
    """A triangle of queries × keys, which is the same in each layer and step."""
    mask = args.tensor(0)
    if mask is None or len(mask.shape) < 2 or mask.shape[-1] != mask.shape[-2]:
        return None
    return 0 if mask.shape[-1] >= _MASK else None


def _keep_sampling(several: Sequence[Arguments]) -> Keep:
    """Sampling without a sort reads the logits once."""
    logits = several[0].tensor(0)
    if logits is None or not logits.shape or logits.shape[-1] < _VOCABULARY:
        return None
    return get_bytes(logits)


def _keep_largest(args: Arguments) -> Keep:
    """topk(x, 1) is a maximum: one pass."""
    return get_bytes(args.tensor(0)) or None if args.value(1) == "1" else None


PATTERNS = (
    Pattern(
        "product-with-one-hot",
        "Product with a one-hot matrix",
        match_row("aten::scatter_", "aten::copy_ ?", "aten::(?:mm|addmm)", keep=_keep_one_hot),
        cause="rows of a matrix are looked up by a product with a one-hot matrix",
        fix="torch.nn.functional.embedding(index, weight)",
        source="PyTorch: torch.nn.functional.embedding, one_hot",
    ),
    Pattern(
        "indexing-by-mask",
        "Indexing by a mask",
        match_each("aten::nonzero", _keep_none),
        cause="indexing by a mask of booleans counts and lists what it holds, and the host waits "
        "for the number",
        fix="torch.where, or masked_fill, which keep the shape",
        source="PyTorch Performance Tuning Guide: Avoid unnecessary CPU-GPU synchronization "
        "(nonzero, masks)",
        with_backward=False,
    ),
    Pattern(
        "mask-made-again",
        "Causal mask made again and again",
        match_each("aten::(?:tril|triu)_?", _keep_mask),
        cause="a triangular mask of queries × keys is made anew each time",
        fix="scaled_dot_product_attention(..., is_causal=True), or a mask that is made once",
        source="PyTorch: scaled_dot_product_attention (is_causal)",
        with_backward=False,
    ),
    Pattern(
        "sampling-by-sort",
        "Sampling by a sort of the vocabulary",
        match_row("aten::sort", "aten::_softmax", "aten::cumsum", keep=_keep_sampling),
        cause="top-p sampling sorts all logits of the vocabulary",
        fix="sampling without a sort (FlashInfer's top_p_sampling_from_probs), or top-k before it",
        source="FlashInfer: Sorting-Free GPU Kernels for LLM Sampling (2025)",
        with_backward=False,
    ),
    Pattern(
        "largest-by-topk",
        "topk for the largest alone",
        match_each("aten::topk", _keep_largest),
        cause="a topk for one element selects by radix what a reduction finds in one pass",
        fix="torch.max(x, dim)",
        source="PyTorch: torch.topk, torch.max",
    ),
)
