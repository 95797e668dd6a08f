"""Batch normalizations with fixed statistics: one multiplication and one addition a channel.

Unlike those of a training step they pass over their input once, like an elementwise kernel, and
behind a convolution or a product they are a factor of its weights.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.kernels.patterns.layout import CONVERSION
from sightline.subjects.kernels.rules._shared import GEMM, list_kernels, match_kernels
from sightline.timeline.kernel_kinds import CONVOLUTION, match_kind

# cuDNN (bn_fw_inf_1C11_kernel_NCHW, beside bn_fw_tr of training) and MIOpen
# (MIOpenBatchNormFwdInferSpatialEst) name them so.
_INFERS = r"bn_fw_inf|BatchNormFwdInfer"
# PyTorch's own (ATen/native/cuda/Normalization.cuh) has one kernel for both, which in training
# comes behind the statistics of its input. Without a backward pass no weight has to stay by itself.
# On the device of its profiler of before Kineto run operators in place of kernels.
_OPERATORS = r"^aten::(?:_batch_norm_impl_index|(?:cudnn_|miopen_|native_)?batch_norm)$"
_APPLIES = rf"batch_norm_transform_input|{_OPERATORS}"
_COLLECTS = r"batch_norm_collect_statistics"
# What stands between it and the convolution: 1/√(variance + ε) of each channel, and conversions.
_PREPARES = rf"batch_norm_calc_invstd|{CONVERSION}"
_BACKWARD = r"(?i)bn_bw|batch_?norm_?(?:backward|bwd)"
FIXED_NORM = f"{_INFERS}|{_APPLIES}"
_LANE = ["rank", "device_id", "stream_id"]


def list_fixed_norms(run: Run) -> pl.DataFrame:
    """Kernels of batch normalizations with fixed statistics: device_op_id, folds.

    `folds`: right after a convolution or product (but for what prepares it), in a run
    without a backward pass of batch normalization: its weights can hold it.
    """
    kernels = list_kernels(run).select("device_op_id", *_LANE)
    marked = kernels.with_columns(
        infers=match_kernels(run, _INFERS),
        applies=match_kernels(run, _APPLIES),
        collects=match_kernels(run, _COLLECTS),
    )
    steps = marked.filter(pl.any_horizontal("infers", "applies", "collects"))
    trains = pl.col("collects").shift(1).over(_LANE).fill_null(value=False)
    fixed = steps.filter(pl.col("infers") | (pl.col("applies") & ~trains))
    learns = match_kernels(run, _BACKWARD).any()
    linear = match_kernels(run, GEMM) | match_kernels(run, match_kind(CONVOLUTION))
    behind = (
        kernels.with_columns(linear=linear)
        .filter(~match_kernels(run, _PREPARES))
        .select("device_op_id", folds=pl.col("linear").shift(1).over(_LANE).fill_null(value=False))
    )
    return (
        fixed.select("device_op_id")
        .join(behind, on="device_op_id", how="left", maintain_order="left")
        .with_columns(pl.col("folds").fill_null(value=False) & pl.lit(not learns))
    )
