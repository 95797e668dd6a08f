"""Matrix products: 2·m·n·k operations for each matrix of the batch.

Arguments as PyTorch's operators declare them (aten/src/ATen/native/native_functions.yaml), and
those of vLLM and AITER (vllm/model_executor/layers/utils.py, aiter/tuned_gemm.py). What is added to
a product is counted as traffic, not as operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.roofline.operators.work import GEMM, OperatorWork

Model = Callable[[Arguments], OperatorWork | None]


def _multiply(
    a: Tensor | None, b: Tensor | None, added: Tensor | None = None, out_bytes: int | None = None
) -> OperatorWork | None:
    """A (…, m, k) times B (…, k, n), with a tensor added to it if there is one."""
    if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
        return None
    *batch, m, k = a.shape
    n = b.shape[-1]
    if b.shape[-2] != k or list(b.shape[:-2]) != batch:
        return None
    count = math.prod(batch)
    moved = a.stored_bytes + b.stored_bytes + (added.stored_bytes if added else 0)
    moved += count * m * n * (out_bytes or a.element_bytes)
    dims = (("m", m), ("n", n), ("k", k), *((("batch", count),) if batch else ()))
    return OperatorWork(GEMM, moved, 2 * count * m * n * k, a.dtype, dims)


def _product(first: int, added: int | None = None, beta: int | None = None) -> Model:
    """A product of the tensors in places `first` and `first + 1`."""

    def count(args: Arguments) -> OperatorWork | None:
        extra = None if added is None else args.tensor(added)
        if beta is not None and args.value(beta) in ("0", "0.", "0.0"):
            extra = None  # what is multiplied by 0 is not read
        return _multiply(args.tensor(first), args.tensor(first + 1), extra)

    return count


def _linear(bias: int | None = None) -> Model:
    """X (…, k) times the transposed weight (n, k)."""

    def count(args: Arguments) -> OperatorWork | None:
        x, weight = args.tensor(0), args.tensor(1)
        if x is None or weight is None or len(weight.shape) != 2 or not x.shape:
            return None
        n, k = weight.shape
        rows = Tensor((math.prod(x.shape[:-1]), x.shape[-1]), x.dtype)
        extra = None if bias is None else args.tensor(bias)
        return _multiply(rows, Tensor((k, n), weight.dtype), extra)

    return count


def _matrix_vector(first: int, added: int | None = None) -> Model:
    """A (m, k) times x (k)."""

    def count(args: Arguments) -> OperatorWork | None:
        a, x = args.tensor(first), args.tensor(first + 1)
        if a is None or x is None or len(x.shape) != 1:
            return None
        column = Tensor((x.shape[0], 1), x.dtype)
        return _multiply(a, column, None if added is None else args.tensor(added))

    return count


def _scaled(args: Arguments) -> OperatorWork | None:
    """Products of FP8 write 16-bit results unless told otherwise (torch._scaled_mm)."""
    return _multiply(args.tensor(0), args.tensor(1), out_bytes=2)


def _integer(args: Arguments) -> OperatorWork | None:
    return _multiply(args.tensor(0), args.tensor(1), out_bytes=4)


MODELS: dict[str, Model] = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::addmm": _product(1, added=0, beta=3),
    "aten::_addmm_activation": _product(1, added=0, beta=3),
    "aten::baddbmm": _product(1, added=0, beta=3),
    "aten::mv": _matrix_vector(0),
    "aten::addmv": _matrix_vector(1, added=0),
    "aten::_scaled_mm": _scaled,
    "aten::_int_mm": _integer,
    "aiter::gemm_a16w16": _linear(bias=2),
    "vllm::rocm_unquantized_gemm": _linear(bias=2),
}
