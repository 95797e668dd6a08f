"""Convolutions: two operations for each weight that meets an element (PyTorch's argument order).

The count is that of the direct algorithm, padding included; Winograd and FFT do fewer operations,
so they can stand above the roof.
"""

from __future__ import annotations

import math

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.roofline.operators.work import CONVOLUTION, OperatorWork


def _forward(args: Arguments) -> OperatorWork | None:
    """convolution(input, weight, bias, stride, padding, dilation, transposed, …, groups)."""
    image, weight = args.tensor(0), args.tensor(1)
    if image is None or weight is None or not 3 <= len(image.shape) == len(weight.shape):
        return None
    shape = _find_output_shape(image, weight, args)
    if shape is None:
        return None
    result = Tensor(shape, image.dtype)
    bias = args.tensor(2)
    moved = image.stored_bytes + weight.stored_bytes + result.stored_bytes
    flop = _count_products(image, weight, result, args.flag(6) or False)
    dims = _name_dims(weight, result)
    return OperatorWork(
        CONVOLUTION, moved + (bias.stored_bytes if bias else 0), flop, image.dtype, dims
    )


def _backward(args: Arguments) -> OperatorWork | None:
    """convolution_backward(grad, input, weight, …, transposed, …, groups, output_mask).

    The gradients of input and weight are two convolutions as large as the forward one, and each
    reads the incoming gradient.
    """
    grad, image, weight = args.tensor(0), args.tensor(1), args.tensor(2)
    wanted = args.flags(10)
    if grad is None or image is None or weight is None or wanted is None or len(wanted) < 3:
        return None
    once = _count_products(image, weight, grad, args.flag(7) or False)
    moved = sum(wanted[:2]) * sum(t.stored_bytes for t in (grad, image, weight))
    if wanted[2] and len(grad.shape) > 1:
        moved += grad.shape[1] * grad.element_bytes
    dims = _name_dims(weight, grad)
    return OperatorWork(CONVOLUTION, moved, sum(wanted[:2]) * once, image.dtype, dims)


def _count_products(image: Tensor, weight: Tensor, result: Tensor, transposed: bool) -> int:
    """Operations: each element of the smaller grid meets a whole filter."""
    return 2 * (image if transposed else result).elements * math.prod(weight.shape[1:])


def _name_dims(weight: Tensor, result: Tensor) -> tuple[tuple[str, int], ...]:
    """As the matrix product that it is: m positions, n channels, k elements of a filter."""
    positions = result.shape[0] * math.prod(result.shape[2:])
    return ("m", positions), ("n", result.shape[1]), ("k", math.prod(weight.shape[1:]))


def _find_output_shape(image: Tensor, weight: Tensor, args: Arguments) -> tuple[int, ...] | None:
    """The result's shape, as torch.nn.Conv and ConvTranspose document it; None if unknown."""
    stride, padding, dilation, extra = (args.integers(i) for i in (3, 4, 5, 7))
    groups, transposed = args.integers(8), args.flag(6)
    if None in (stride, padding, dilation, groups, transposed):
        return None
    places = len(image.shape) - 2
    step, pad, spread, more = (
        tuple(v) * places if v is not None and len(v) == 1 else v or (0,) * places
        for v in (stride, padding, dilation, extra)
    )
    if any(len(v) != places for v in (step, pad, spread, more)) or 0 in step:
        return None
    sizes = zip(image.shape[2:], weight.shape[2:], step, pad, spread, more, strict=True)
    if transposed:
        channels = weight.shape[1] * groups[0]  # type: ignore[index]
        grid = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in sizes]
    else:
        channels = weight.shape[0]
        grid = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes]
    shape = (image.shape[0], channels, *grid)
    return shape if min(shape) >= 0 else None


MODELS = {"aten::convolution": _forward, "aten::convolution_backward": _backward}
