"""unfused-elementwise-chain: pointwise kernels of one shape right behind each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.operators import op, run_of
from support.rules import assert_silent, assert_speaks
from support.traces import opened, queued

RULE, POINTWISE = "unfused-elementwise-chain", "vectorized_elementwise_kernel"


@pytest.mark.parametrize("name", [POINTWISE, "triton_poi_fused_add_0"])
def test_three_in_a_row(tmp_path: Path, name: str) -> None:
    """The longest stays: without 100 and 200 of 1,000 µs."""
    assert_speaks(
        opened(
            tmp_path, queued(("gemm", 300), (name, 100), (name, 300), (name, 200), ("gemm", 100))
        ),
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=[f"2 × {name}, 300.0 µs", "3.0 kernels"],
        fix="torch.compile",
        severity="critical",
        method="bound from a replay: how much of it can be gained, the recording does not show",
    )


def test_one_between_two_others_is_no_chain(tmp_path: Path) -> None:
    work = queued((POINTWISE, 100), ("gemm", 100), (POINTWISE, 100))
    assert_silent(opened(tmp_path, work), RULE)


def test_another_shape_ends_the_chain(tmp_path: Path) -> None:
    work = [
        *queued((POINTWISE, 100), grid=[8, 1, 1]),
        *queued((POINTWISE, 100), grid=[9, 1, 1], begin=300, called=100),
    ]
    assert_silent(opened(tmp_path, work), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    def chain(short: int) -> list[object]:
        return queued(("gemm", 500), (POINTWISE, 100), (POINTWISE, short), ("gemm", 400 - short))

    assert_silent(opened(tmp_path / "a", chain(49)), RULE)
    assert_speaks(
        opened(tmp_path / "b", chain(50)),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="torch.compile",
    )


def test_turns_of_a_loop_are_no_chain(tmp_path: Path) -> None:
    """One kernel eight times depends on itself, for all that is known; two make chains of two."""
    assert_silent(opened(tmp_path / "a", queued(*[(POINTWISE, 100)] * 8)), RULE)
    assert_speaks(
        opened(tmp_path / "b", queued(*[(POINTWISE, 150), ("elementwise_kernel", 100)] * 8)),
        RULE,
        cost_ns=800_000,
        gain_ns=800_000,
        evidence=["8 chains of 2.0 kernels"],
        fix="torch.compile",
    )


def test_known_shapes_bound_it_by_what_is_not_moved(tmp_path: Path) -> None:
    """Of six tensors that two additions move, one is written and read between: 2/6 of 200 µs."""
    added = op("aten::add", [1024, 1024], [1024, 1024], kernel=POINTWISE)
    other = op("aten::mm", [64, 64], [64, 64], kernel="gemm")
    assert_speaks(
        run_of(tmp_path, added, added, other),
        RULE,
        cost_ns=66_667,
        gain_ns=66_667,
        evidence=["1 chain of 2.0 kernels"],
        fix="torch.compile",
    )


CONV, CUDNN, MIOPEN = "fprop_implicit_gemm", "bn_fw_inf_1C11", "MIOpenBatchNormFwdInferSpatialEst"
NATIVE, STATISTICS = "batch_norm_transform_input_kernel", "batch_norm_collect_statistics_kernel"


def run_norms(folder: Path, *kernels: tuple[str, int]) -> Run:
    """Kernels one after another, of which normalizations have a grid of their own."""
    events, at = [], 200
    for i, (name, length) in enumerate(kernels):
        grid = [9, 1, 1] if "orm" in name or "bn_" in name else [64, 1, 1]
        events += queued((name, length), grid=grid, begin=at, called=10 * i)
        at += length
    return opened(folder, events)


@pytest.mark.parametrize("norm", [CUDNN, MIOPEN, NATIVE])
def test_a_batch_norm_of_inference_folds_into_the_convolution(tmp_path: Path, norm: str) -> None:
    """Without 150 µs; the 100 of the ReLU behind it stay."""
    scale = "elementwise_kernel<batch_norm_calc_invstd>"
    between = ("nhwcToNchwKernel", 45), (scale, 5)
    work = ((CONV, 300), *between, (norm, 150), (POINTWISE, 100), (CONV, 400))
    assert_speaks(
        run_norms(tmp_path, *work),
        RULE,
        cost_ns=150_000,
        gain_ns=150_000,
        evidence=["1 chain of 2.0 kernels", "1 batch normalization with fixed statistics right"],
        fix="fuse_conv_bn_eval",
    )


def test_one_with_nothing_behind_it_folds_alone(tmp_path: Path) -> None:
    assert_speaks(
        run_norms(tmp_path, (CONV, 300), (CUDNN, 150), (CONV, 550)),
        RULE,
        cost_ns=150_000,
        gain_ns=150_000,
        evidence=["1 × bn_fw_inf_1C11, 150.0 µs"],
        fix="fuse_conv_bn_eval",
    )


def test_operators_of_the_first_profiler_fold_too(tmp_path: Path) -> None:
    """Its ranges on the device are operators, and no kernels."""
    conv, norm, relu = "aten::cudnn_convolution", "aten::_batch_norm_impl_index", "aten::relu_"
    assert_speaks(
        run_norms(tmp_path, (conv, 300), (norm, 150), (conv, 300), (relu, 100), (conv, 150)),
        RULE,
        cost_ns=150_000,
        gain_ns=150_000,
        evidence=["1 × aten::_batch_norm_impl_index"],
        fix="fuse_conv_bn_eval",
    )


@pytest.mark.parametrize(
    "work",
    [
        ((CUDNN, 150), (POINTWISE, 100), (CONV, 750)),
        ((POINTWISE, 100), (CUDNN, 150), (CONV, 750)),
        ((CONV, 300), (CUDNN, 150), (POINTWISE, 100), (CONV, 300), ("cudnn::bn_bw_1C11", 150)),
    ],
    ids=["before a ReLU", "behind a ReLU", "with a backward pass"],
)
def test_one_that_cannot_fold_is_a_link(tmp_path: Path, work: tuple[tuple[str, int], ...]) -> None:
    """The longest pass stays, and 100 of 1,000 µs go."""
    found = assert_speaks(
        run_norms(tmp_path, *work),
        RULE,
        cost_ns=100_000,
        gain_ns=100_000,
        evidence=["1 chain of 2.0 kernels"],
        fix="fuse",
    )
    assert "fixed statistics" not in "".join(found.evidence)


@pytest.mark.parametrize(
    "norms",
    [((STATISTICS, 200), (NATIVE, 150)), (("bn_fw_tr_1C11_kernel_NCHW", 350),)],
    ids=["PyTorch's own", "cuDNN"],
)
def test_one_of_training_is_no_pass(tmp_path: Path, norms: tuple[tuple[str, int], ...]) -> None:
    work = ((CONV, 300), *norms, (POINTWISE, 100), (CONV, 250))
    assert_silent(run_norms(tmp_path, *work), RULE)


@pytest.mark.parametrize(
    ("product", "type_of", "halves"),
    [
        ("fprop_tf32_nhwckrsc_conv", "float", True),
        ("cutlass_80_tensorop_s1688gemm_256x64", "float", True),
        ("ampere_sgemm_128x64", "float", False),
        ("fprop_tf32_nhwckrsc_conv", "c10::Half", False),
    ],
)
def test_half_precision_where_fp32_is_rounded_already(
    tmp_path: Path, product: str, type_of: str, halves: bool
) -> None:
    add = f"{POINTWISE}<4, CUDAFunctor_add<{type_of}>>"
    found = assert_speaks(
        run_norms(tmp_path, (product, 300), (add, 300), (add, 200), ("nchwToNhwcKernel", 200)),
        RULE,
        cost_ns=200_000,
        gain_ns=200_000,
        evidence=["1 chain of 2.0 kernels"],
        fix="torch.compile",
    )
    assert ("with channels_last halves the bytes" in (found.fix or "")) == halves
