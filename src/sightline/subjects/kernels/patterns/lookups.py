"""Masks, sorts and one-hot matrices, where an index or a maximum would do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from sightline.roofline.operators.arguments import Arguments, read_json
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import (
    MATCHES,
    Keep,
    Pattern,
    make_matches,
    match_each,
    match_row,
)
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

_MASK = 512  # ours: a smaller mask takes no time that anybody sees
# Vocabularies of language models begin here; smaller sorts are no sampling (ours).
_VOCABULARY = 16_384
# A selection takes so small a part of a row, of rows that are worth a word (ours).
_SMALL_PART, _LEAST_ROW = 16, 1024
# topk finds the k-th value in four passes of eight bits, and reads all once more to gather
# (ATen/native/cuda/TensorTopK.cu, mbtopk: RADIX_BITS 8).
_SELECT_PASSES = 5


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


def _find_sorts_for_few(calls: Calls) -> pl.DataFrame:
    """Calls in sorts of whose result a slice right behind takes the first few of each row."""
    columns = ["host_op_id", "parent_id", "rank", "tid", "layer", "input_shapes", "input_values"]
    names = list_host_names(calls.run)
    host = calls.run.columns("host_ops", columns).with_columns(
        sorts=names.match(r"^aten::(?:arg)?sort$"), slices=names.match(r"^aten::slice$")
    )
    if not (host.get_column("sorts").any() and host.get_column("slices").any()):
        return make_matches(())
    siblings = ["rank", "tid", "parent_id"]
    text = pl.col("input_shapes", "input_values").cast(pl.String)
    behind = (
        host.filter(pl.col("layer") == "op")
        .sort("host_op_id")
        .with_columns(text)
        .with_columns(
            taken=pl.col("slices").shift(-1).over(siblings),
            of=pl.col("input_shapes").shift(-1).over(siblings),
            part=pl.col("input_values").shift(-1).over(siblings),
        )
        .filter("sorts", "taken")
    )
    rows = behind.select("host_op_id", "input_shapes", "of", "part").rows()
    kept = {number: bytes_ for number, *texts in rows if (bytes_ := _keep_selection(*texts))}
    if not kept:
        return make_matches(())
    meant = pl.DataFrame({"match": list(kept), "keep_bytes": [float(b) for b in kept.values()]})
    inside = find_host_ancestor(
        calls.run, calls.table.get_column("call"), meant.get_column("match")
    )
    found = calls.table.select("call", match=inside).drop_nulls("match")
    return found.join(meant, on="match").with_columns(keep_ns=pl.lit(0.0)).select(*MATCHES)


def _keep_selection(of_sort: str | None, of_slice: str | None, values: str | None) -> int | None:
    """What a selection reads, bytes of fp32; None where it is not [..., :few] of the sort."""
    shapes, taken, told = read_json(of_sort), read_json(of_slice), read_json(values)
    try:
        shape, dim, first, last = shapes[0], int(told[1]), int(told[2] or 0), int(told[3])
        if not shape or shape != taken[0] or first or dim % len(shape) != len(shape) - 1:
            return None
        row = int(shape[-1])
        is_few = 0 < last * _SMALL_PART <= row and row >= _LEAST_ROW
        return _SELECT_PASSES * 4 * math.prod(shape) if is_few else None
    except (TypeError, ValueError, IndexError):
        return None


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
        "Causal mask rebuilt each time",
        match_each("aten::(?:tril|triu)_?", _keep_mask),
        cause="a triangular mask of queries × keys is rebuilt each time",
        fix="scaled_dot_product_attention(..., is_causal=True), or a mask that is built once",
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
        "sort-for-few",
        "Sort of whole rows for a few of each",
        _find_sorts_for_few,
        cause="whole rows are sorted, and a slice takes the first few of each",
        fix="torch.topk(x, k), which selects them without sorting the rest",
        source="PyTorch: torch.topk; ATen/native/cuda/TensorTopK.cu",
        with_backward=False,
    ),
    Pattern(
        "largest-by-topk",
        "topk for a single element",
        match_each("aten::topk", _keep_largest),
        cause="a topk for one element selects by radix what a reduction finds in one pass",
        fix="torch.max(x, dim)",
        source="PyTorch: torch.topk, torch.max",
    ),
)
