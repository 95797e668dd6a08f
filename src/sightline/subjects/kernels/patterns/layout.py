"""Tensors of images in another memory layout than the kernels want."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import (
    Keep,
    Pattern,
    make_matches,
    match_each,
    match_row,
)

# cuDNN converts by name; MIOpen transposes in batches (batched_transpose_32x32_half).
CONVERSION = r"(?i)nchwtonhwc|nhwctonchw|batched_transpose_\d+x\d+"
_CONV = r"aten::(?:cudnn_convolution|miopen_convolution|_slow_conv2d_forward|slow_conv\w*)"
_NORM = r"aten::(?:native|cudnn|miopen)_batch_norm"
CHANNELS_LAST = (
    "model.to(memory_format=torch.channels_last), and the inputs too: convolutions and batch "
    "normalization have kernels for it that need no conversion"
)
_MEMORY_FORMAT = "PyTorch: Channels Last Memory Format; NVIDIA: Convolutional Layers User's Guide"


def is_channels_last(tensor: Tensor) -> bool | None:
    """Whether a tensor of images (N, C, H, W) has its channels last; None where it is not known.

    What has one channel or one pixel is both.
    """
    strides, shape = tensor.strides, tensor.shape
    if strides is None or len(shape) not in (4, 5) or shape[1] < 2 or max(shape[2:]) < 2:
        return None
    return strides[1] == 1


def _find_norms(calls: Calls) -> pl.DataFrame:
    """Batch normalizations of images in NCHW, where convolutions convert from it to NHWC."""
    if not calls.kernels.get_column("name").str.contains(CONVERSION).any():
        return make_matches(())
    return match_each(rf"{_NORM}(?:_backward)?", _keep_norm)(calls)


def _keep_norm(args: Arguments) -> Keep:
    """What a normalization passes over, at the least.

    In training it reads its input for the statistics and again to normalize it, and writes once;
    backward reads gradient and input for their sums, both again, and writes the input's gradient.
    """
    first, second = args.tensor(0), args.tensor(1)
    if first is None or len(first.shape) not in (4, 5) or is_channels_last(first) is not False:
        return None
    is_backward = second is not None and second.shape == first.shape
    return (5 if is_backward else 2 if args.flag(5) is False else 3) * get_bytes(first)


def _keep_copy(args: Arguments) -> Keep:
    """copy_(to, from) of equal images, one of which has its channels last: gone."""
    to, given = args.tensor(0), args.tensor(1)
    if to is None or given is None or to.shape != given.shape or to.dtype != given.dtype:
        return None
    layouts = {is_channels_last(to), is_channels_last(given)}
    return 0 if layouts == {True, False} else None


def _keep_depthwise(args: Arguments) -> Keep:
    """A convolution of each channel by itself reads its input and writes as much."""
    image = args.tensor(0)
    return None if image is None or len(image.shape) != 4 else 2 * get_bytes(image)


def _keep_bias(several: Sequence[Arguments]) -> Keep:
    """The bias [1, C, 1, 1] that is added behind a convolution: the normalization takes it out."""
    image, bias = several[0].tensor(0), several[0].tensor(1)
    if image is None or bias is None or len(image.shape) < 3:
        return None
    return 0 if bias.elements == image.shape[1] else None


def _keep_folded(several: Sequence[Arguments]) -> Keep:
    """batch_norm(..., training=False) behind a convolution is a factor of its weights."""
    return 0 if several[0].flag(5) is False else None


def _keep_padding(several: Sequence[Arguments]) -> Keep:
    """A copy with zeros around it, which the convolution behind it can do by itself."""
    image = several[0].tensor(0)
    return 0 if image is not None and len(image.shape) >= 3 else None


PATTERNS = (
    Pattern(
        "batch-norm-channels-first",
        "Batch normalization in NCHW",
        _find_norms,
        cause="batch normalization in NCHW stays far below the memory's rate",
        fix=CHANNELS_LAST,
        source="PyTorch #60063 (batch normalization in NHWC)",
        rule="layout-conversions",
        with_backward=False,
        with_host=False,
    ),
    Pattern(
        "layout-copy",
        "Copies between memory layouts",
        match_each("aten::copy_", _keep_copy),
        cause="tensors of images are copied between NCHW and NHWC",
        fix=CHANNELS_LAST,
        source=_MEMORY_FORMAT,
        rule="layout-conversions",
    ),
    Pattern(
        "conv-bias-before-norm",
        "Bias of a convolution before batch normalization",
        match_row("aten::add_", after=_CONV, before=_NORM, keep=_keep_bias),
        cause="a convolution adds a bias that the batch normalization after it takes out again",
        fix="torch.nn.Conv2d(..., bias=False) before BatchNorm2d",
        source="PyTorch Performance Tuning Guide: disable bias for convolutions directly followed "
        "by a batch norm; torch.profiler: Conv2dBiasFollowedByBatchNorm2dPattern",
    ),
    Pattern(
        "batch-norm-not-folded",
        "Batch normalization not folded into the convolution",
        match_row(_NORM, after=rf"{_CONV}|aten::add_", keep=_keep_folded),
        cause="in evaluation a batch normalization after a convolution is a pass over memory that "
        "the convolution's weights can hold",
        fix="torch.nn.utils.fusion.fuse_conv_bn_eval, or torch.compile with freezing",
        source="PyTorch: Building a Convolution/Batch Norm fuser with torch.compile",
        with_backward=False,
    ),
    Pattern(
        "padding-before-convolution",
        "Padding as an operator of its own before a convolution",
        match_row("aten::(?:fill_|zero_)", "aten::copy_", before=_CONV, keep=_keep_padding),
        cause="tensors are padded by a fill and a copy before a convolution, which can do that",
        fix="the padding argument of the convolution (padding=..., padding_mode)",
        source="PyTorch: torch.nn.Conv2d (padding); NVIDIA: Convolutional Layers User's Guide",
    ),
    Pattern(
        "depthwise-in-fp32-kernels",
        "Depthwise convolutions in PyTorch's own kernels",
        match_each(r"aten::_conv_depthwise2d", _keep_depthwise),
        cause="depthwise convolutions run in PyTorch's own kernel, far from the memory's rate",
        fix="channels_last with fp16 or bf16, for which cuDNN has kernels for depthwise layers; or "
        "torch.compile",
        source=_MEMORY_FORMAT,
    ),
)
