"""Operators that pass over their tensors once: elementwise, normalization, softmax, reductions.

Their arithmetic does not matter (at most some operations for each element, where a GPU needs tens
of them for each byte to be busy): what counts is the traffic. Each tensor is read once and each
result written once; a kernel that passes over its input twice is below its roof for that reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.roofline.operators.work import (
    ELEMENTWISE,
    MOVEMENT,
    NORMALIZATION,
    REDUCTION,
    SOFTMAX,
    OperatorWork,
)

Model = Callable[[Arguments], OperatorWork | None]


def _moved(kind: str, read: int, written: int, like: Tensor) -> OperatorWork:
    return OperatorWork(kind, read + written, None, like.dtype, (("elements", like.elements),))


def _pointwise(operands: int, result_bytes: int | None = None) -> Model:
    """All operands are read, and one of their broadcast shape is written."""

    def count(args: Arguments) -> OperatorWork | None:
        # Only the operands: what may follow is the result (`out=`), which is not read.
        tensors = [t for i in range(operands) if (t := args.tensor(i)) is not None]
        shape = _broadcast([t.shape for t in tensors])
        if not tensors or shape is None:
            return None
        # A tensor without dimensions does not widen the result (PyTorch, "Type promotion").
        large = [t for t in tensors if t.shape] or tensors
        widest = max(large, key=lambda t: t.element_bytes)
        read = sum(t.stored_bytes for t in tensors)
        written = math.prod(shape) * (result_bytes or widest.element_bytes)
        return _moved(ELEMENTWISE, read, written, Tensor(shape, widest.dtype))

    return count


def _in_place(reads_itself: bool = True) -> Model:
    """The first tensor is read, unless it is only overwritten, and written; the others are read."""

    def count(args: Arguments) -> OperatorWork | None:
        own = args.tensor(0)
        if own is None:
            return None
        others = sum(t.stored_bytes for t in args.tensors()[1:])
        once = own.stored_bytes
        kind = ELEMENTWISE if reads_itself else MOVEMENT
        return _moved(kind, others + (once if reads_itself else 0), once, own)

    return count


def _like_first(kind: str, operands: int) -> Model:
    """The operands are read, and a result as large as the first one is written."""

    def count(args: Arguments) -> OperatorWork | None:
        first = args.tensor(0)
        if first is None:
            return None
        read = sum(t.stored_bytes for i in range(operands) if (t := args.tensor(i)) is not None)
        return _moved(kind, read, first.elements * first.element_bytes, first)

    return count


def _normalize_batch(training: int) -> Model:
    """batch_norm: training also writes the running statistics, which stand in places 3 and 4."""

    def count(args: Arguments) -> OperatorWork | None:
        first = args.tensor(0)
        if first is None or args.flag(training) is None:
            return None
        running = [t for i in (3, 4) if (t := args.tensor(i)) is not None and args.flag(training)]
        written = first.elements * first.element_bytes + sum(t.stored_bytes for t in running)
        return _moved(NORMALIZATION, sum(t.stored_bytes for t in args.tensors()), written, first)

    return count


def _normalize_backward(*weights: int) -> Model:
    """All tensors are read; gradients of the input and of these weights are written."""

    def count(args: Arguments) -> OperatorWork | None:
        grad = args.tensor(0)
        if grad is None:
            return None
        written = [grad, *(t for i in weights if (t := args.tensor(i)) is not None)]
        read = sum(t.stored_bytes for t in args.tensors())
        return _moved(NORMALIZATION, read, sum(t.elements * t.element_bytes for t in written), grad)

    return count


def _reduce(axes: int, *, result_bytes: int | None = None) -> Model:
    """The first tensor is read; what remains without the axes in this place is written."""

    def count(args: Arguments) -> OperatorWork | None:
        first = args.tensor(0)
        if first is None:
            return None
        gone = args.integers(axes)
        rank = len(first.shape)
        if gone is not None and any(not -rank <= axis < max(rank, 1) for axis in gone):
            return None
        # Without axes, or with none of them named, all are reduced.
        kept = set(range(rank)) - {a % rank for a in gone} if gone and rank else set()
        written = math.prod(first.shape[i] for i in kept) * (result_bytes or first.element_bytes)
        return _moved(REDUCTION, first.stored_bytes, written, first)

    return count


def _gather(args: Arguments) -> OperatorWork | None:
    """Rows of a table: each chosen one is read and written, and the indices are read."""
    tensors = args.tensors()
    if len(tensors) != 2 or not tensors[0].shape:
        return None
    table, indices = tensors
    axis = (args.integers(1) or (0,))[0] if isinstance(args.value(1), str) else 0
    if not -len(table.shape) <= axis < len(table.shape) or not table.shape[axis]:
        return None
    chosen = table.elements // table.shape[axis] * indices.elements * table.element_bytes
    return _moved(MOVEMENT, chosen + indices.stored_bytes, chosen, table)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that all of them are broadcast to; None where they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    found = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        large = {n for n in sizes if n != 1}
        if len(large) > 1:
            return None
        found.append(large.pop() if large else 1)
    return tuple(found)


# Names by the number of operands: where a scalar stands for a tensor, its place holds none.
_POINTWISE = {
    1: "abs bitwise_not clone cos elu erf exp gelu hardswish hardtanh leaky_relu log log1p neg "
    "reciprocal relu rsqrt sigmoid sign silu sin softplus sqrt tan tanh threshold",
    2: "add bitwise_and bitwise_or clamp_max clamp_min div fmod gelu_backward leaky_relu_backward "
    "maximum minimum mul pow remainder rsub sigmoid_backward silu_backward sub tanh_backward "
    "threshold_backward",
    3: "addcdiv addcmul clamp lerp masked_fill where",
}
_COMPARISONS = {
    1: "isfinite isinf isnan logical_not",
    2: "eq ge gt le logical_and logical_or lt ne",
}
_OVERWRITTEN = "copy_ fill_ zero_ normal_ uniform_ bernoulli_ random_"

MODELS: dict[str, Model] = {
    **{f"aten::{name}": _pointwise(n) for n, names in _POINTWISE.items() for name in names.split()},
    **{f"aten::{name}_": _in_place() for names in _POINTWISE.values() for name in names.split()},
    **{
        f"aten::{name}": _pointwise(n, 1)
        for n, names in _COMPARISONS.items()
        for name in names.split()
    },
    **{f"aten::{name}": _in_place(reads_itself=False) for name in _OVERWRITTEN.split()},
    "aten::batch_norm": _normalize_batch(5),
    "aten::native_batch_norm": _normalize_batch(5),
    "aten::cudnn_batch_norm": _normalize_batch(5),
    "aten::miopen_batch_norm": _normalize_batch(5),
    "aten::instance_norm": _normalize_batch(5),
    "aten::layer_norm": _like_first(NORMALIZATION, 4),
    "aten::native_layer_norm": _like_first(NORMALIZATION, 4),
    "aten::group_norm": _like_first(NORMALIZATION, 4),
    "aten::native_group_norm": _like_first(NORMALIZATION, 3),
    "aten::rms_norm": _like_first(NORMALIZATION, 3),
    "aten::_fused_rms_norm": _like_first(NORMALIZATION, 3),
    "aiter::rms_norm": _like_first(NORMALIZATION, 2),
    "aten::native_batch_norm_backward": _normalize_backward(2, 2),
    "aten::cudnn_batch_norm_backward": _normalize_backward(2, 2),
    "aten::miopen_batch_norm_backward": _normalize_backward(2, 2),
    "aten::native_layer_norm_backward": _normalize_backward(5, 6),
    "aten::native_group_norm_backward": _normalize_backward(4, 4),
    "aten::_fused_rms_norm_backward": _normalize_backward(4),
    "aten::_softmax": _like_first(SOFTMAX, 1),
    "aten::_log_softmax": _like_first(SOFTMAX, 1),
    "aten::_safe_softmax": _like_first(SOFTMAX, 1),
    "aten::_softmax_backward_data": _like_first(SOFTMAX, 2),
    "aten::_log_softmax_backward_data": _like_first(SOFTMAX, 2),
    "aten::cumsum": _like_first(REDUCTION, 1),
    "aten::sum": _reduce(1),
    "aten::mean": _reduce(1),
    "aten::amax": _reduce(1),
    "aten::amin": _reduce(1),
    "aten::argmax": _reduce(1, result_bytes=8),
    "aten::argmin": _reduce(1, result_bytes=8),
    "aten::any": _reduce(1, result_bytes=1),
    "aten::all": _reduce(1, result_bytes=1),
    "aten::linalg_norm": _reduce(2),
    "aten::linalg_vector_norm": _reduce(2),
    "aten::norm": _reduce(2),
    "aten::index_select": _gather,
}
