"""attention-not-fused: softmax and pointwise kernels between two matrix products."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.operators import backward, op
from support.operators import run_of as program
from support.rules import assert_silent, assert_speaks
from support.traces import computed, kernel, opened, queued, told

RULE = "attention-not-fused"
GEMM, SOFTMAX, SCALE = "ampere_sgemm_128", "softmax_warp_forward", "vectorized_elementwise_kernel"


def run_of(folder: Path, *kernels: tuple[str, int]) -> Run:
    return opened(folder, queued(*kernels))


def test_scale_and_softmax_between_two_products(tmp_path: Path) -> None:
    """Without 100 and 200 of 500 µs the second product follows the first."""
    assert_speaks(
        run_of(tmp_path, (GEMM, 100), (SCALE, 100), (SOFTMAX, 200), (GEMM, 100)),
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=["1 × softmax_warp_forward, 200.0 µs"],
        fix="scaled_dot_product_attention",
        severity="critical",
    )


def test_the_traffic_between_the_products_where_shapes_are_known(tmp_path: Path) -> None:
    """A softmax over 4,000 × 4,000 elements of two bytes reads and writes 64 MB."""
    scores = told([4000, 4000])
    events = [
        computed("aten::mm", 0, kernel(GEMM, 100, 100)),
        computed("aten::_softmax", 20, kernel(SOFTMAX, 200, 200), **scores),
        computed("aten::mm", 40, kernel(GEMM, 400, 100)),
    ]
    assert_speaks(
        opened(tmp_path, events),
        RULE,
        cost_ns=200_000,
        gain_ns=200_000,
        evidence=["move at least 64.00 MB through memory"],
        fix="scaled_dot_product_attention",
    )


@pytest.mark.parametrize(
    "kernels",
    [
        [(GEMM, 100), (SOFTMAX, 200)],
        [(SOFTMAX, 200), (GEMM, 100)],
        [(GEMM, 100), (SCALE, 200), (GEMM, 100)],
        [(GEMM, 100), (SOFTMAX, 100), ("layer_norm", 10), (GEMM, 100)],
        [(GEMM, 100), (SOFTMAX, 100), (SOFTMAX, 100), (GEMM, 100)],
    ],
    ids=["open end", "open begin", "no softmax", "another kernel", "two softmaxes"],
)
def test_other_sequences(tmp_path: Path, kernels: list[tuple[str, int]]) -> None:
    assert_silent(run_of(tmp_path, *kernels), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path / "a", (GEMM, 500), (SOFTMAX, 49), (GEMM, 451)), RULE)
    assert_speaks(
        run_of(tmp_path / "b", (GEMM, 500), (SOFTMAX, 50), (GEMM, 450)),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="scaled_dot_product_attention",
    )


def test_where_operators_tell_the_products_keep_their_operations(tmp_path: Path) -> None:
    """32 heads of 1,024 tokens of width 64: 8.590 GFLOP at 821.2 TFLOP/s are 10.46 of 300 µs.

    Of the softmax's backward, 2.5 times that stays: 26.15 of 100 µs.
    """
    scores = [4, 8, 1024, 1024]
    run = program(
        tmp_path,
        op("aten::bmm", [32, 1024, 64], [32, 64, 1024], kernel=GEMM),
        op("aten::_softmax", scores, "-1", kernel=SOFTMAX, sequence=2),
        op("aten::bmm", [32, 1024, 1024], [32, 1024, 64], kernel=GEMM),
        backward("SoftmaxBackward0", 2, op("aten::_softmax_backward_data", scores, scores)),
        op("aten::relu", [64]),
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=363_389,
        gain_ns=363_389,
        evidence=["1 × aten::_softmax [[4,8,1024,1024],[]], 100.0 µs"],
        fix="scaled_dot_product_attention",
        confidence="high",
        title="Attention written out",
    )
