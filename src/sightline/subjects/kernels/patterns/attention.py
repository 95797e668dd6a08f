"""Attention as separate products and a softmax, whose matrix of scores goes through memory."""

from __future__ import annotations

import math

import polars as pl

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import MATCHES, Pattern, make_matches
from sightline.subjects.kernels.patterns.rates import REACHED

_SOFTMAX = {"aten::_softmax", "aten::_safe_softmax", "aten::_masked_softmax"}
# Places of the two factors among the arguments (aten/src/ATen/native/native_functions.yaml).
_PRODUCTS = {"aten::bmm": 0, "aten::mm": 0, "aten::baddbmm": 1, "aten::addmm": 1}
# What may stand between the products and the softmax: a scale, a mask, dropout, a cast, a copy.
_FAR = 12


def _find_written_out(calls: Calls) -> pl.DataFrame:
    """A match for each softmax whose scores a product before it made and one behind it takes."""
    rows: list[tuple[int, int, float, float]] = []
    rate = calls.flop_per_s.get(REACHED)
    scores_of = {
        kind: scores
        for kind, (name, args) in enumerate(calls.kinds)
        if args and name in _SOFTMAX and (scores := args.tensor(0)) and len(scores.shape) >= 2
    }
    if not scores_of:
        return make_matches(())
    for at, kind in enumerate(calls.kind_of):
        scores = scores_of.get(kind)
        if scores is None:
            continue
        makes = _search(calls, at, -1, scores, makes=True)
        takes = _search(calls, at, 1, scores, makes=False)
        if makes is None or takes is None:
            continue
        flop = _count_flop(calls, makes, scores) + _count_flop(calls, takes, scores)
        keep_ns = 1e9 * flop / rate if rate else 0.0
        inside = [
            i
            for i in range(makes, takes + 1)
            if i in (makes, takes) or _is_of_scores(calls.kinds[calls.kind_of[i]][1], scores)
        ]
        rows += ((calls.call_of[i], at, 0.0, keep_ns) for i in inside)
    # Where rates are not known the products stay as they are.
    found = make_matches(rows)
    return found if rate else _drop_products(calls, found)


def _search(calls: Calls, at: int, step: int, scores: Tensor, *, makes: bool) -> int | None:
    """The next product of the thread that makes scores, or takes them; None where another comes."""
    for i in range(at + step, at + step * _FAR, step):
        if not 0 <= i < len(calls.kind_of) or calls.kind_of[i] < 0:
            return None
        name, args = calls.kinds[calls.kind_of[i]]
        if name in _PRODUCTS:
            return i if args and _fits(name, args, scores, makes=makes) else None
    return None


def _fits(name: str, args: Arguments, scores: Tensor, *, makes: bool) -> bool:
    a, b = (args.tensor(_PRODUCTS[name] + i) for i in range(2))
    if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
        return False
    result = (*a.shape[:-1], b.shape[-1]) if makes else a.shape
    return result[-1] == scores.shape[-1] and math.prod(result) == scores.elements


def _count_flop(calls: Calls, at: int, scores: Tensor) -> int:
    """Operations of a product: two for each score and each element of a head's width."""
    name, args = calls.kinds[calls.kind_of[at]]
    tensors = [args.tensor(_PRODUCTS[name] + i) for i in range(2)] if args else []
    a, b = (t.shape if t else (0, 0) for t in tensors)
    return 2 * scores.elements * (a[-1] if a[-1] != scores.shape[-1] else b[-1])


def _is_of_scores(args: Arguments | None, scores: Tensor) -> bool:
    return args is not None and any(t.elements == scores.elements for t in args.tensors())


def _drop_products(calls: Calls, found: pl.DataFrame) -> pl.DataFrame:
    products = [kind for kind, (name, _) in enumerate(calls.kinds) if name in _PRODUCTS]
    meant = calls.table.filter(~pl.col("kind").is_in(products)).select("call")
    return found.join(meant, on="call", how="semi").select(*MATCHES)


PATTERNS = (
    Pattern(
        "attention-written-out",
        "Attention written out",
        _find_written_out,
        cause="attention is two matrix products and a softmax, whose matrix of scores (queries × "
        "keys, for each head) is written to memory and read again by each operation",
        fix="torch.nn.functional.scaled_dot_product_attention (flash attention) in fp16 or bf16, "
        "with is_causal=True instead of a mask as a tensor",
        source="Dao et al., FlashAttention (2022); PyTorch: scaled_dot_product_attention",
        rule="attention-not-fused",
        confidence="high",
    ),
)
