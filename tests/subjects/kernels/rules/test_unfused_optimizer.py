"""unfused-optimizer: hundreds of short kernels inside the optimizer's step."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rules import assert_silent, assert_speaks
from support.traces import host, kernel, launched, op, opened

RULE, MUL = "unfused-optimizer", "vectorized_elementwise_kernel<4, MulFunctor>"
FUSED = "multi_tensor_apply_kernel<FusedAdamMathFunctor>"


def step(parameters: int, *, name: str = MUL, span: str = "Optimizer.step#Adam.step") -> list:
    """Two kernels for each parameter, of 2 and 4 µs, launched 10 µs apart, between long ones."""
    events = [launched(0, kernel("gemm", 10, 100))]
    for i in range(parameters):
        for j, of in enumerate(("aten::mul_", "aten::addcdiv_")):
            at = 200 + 20 * i + 10 * j
            work = kernel(name, at + 7, 2 + 2 * j)
            events += [op(of, at - 1, 8), launched(at, work)]
    end = 200 + 20 * parameters
    return [
        *events,
        host("user_annotation", span, 150, end - 150),
        launched(end, kernel("g", end + 10, 100)),
    ]


def test_a_loop_over_forty_parameters(tmp_path: Path) -> None:
    """Left: one launch, and the longer kernel of each parameter: 40 × 4 of 240 µs.

    From 207 to 1,001 µs the device idles for 554 of 794: with the 80 µs of the shorter kernels that
    is 634. Gone, the one launch comes at 155, its kernel runs from 162 to 322, the last one from
    323 to 423: 687 µs sooner.
    """
    found = assert_speaks(
        opened(tmp_path, step(40)),
        RULE,
        cost_ns=687_000,
        gain_ns=687_000,
        evidence=["80 kernels in each optimizer step", "2.0 for each parameter", "240.0 µs"],
        fix="fused=True",
        direct_ns=634_000,
        severity="critical",
        method="bound from a replay: how much of it can be gained, the recording does not show",
    )
    # 634 and 687 of the 1,100 µs from 10 to 1,110.
    assert found.cost_pct == pytest.approx(62.45, abs=0.01)
    assert "takes 57.6 % of the window more than fused kernels would." in found.summary


@pytest.mark.parametrize("name", [FUSED, "triton_poi_fused_add_0"])
def test_kernels_of_many_tensors(tmp_path: Path, name: str) -> None:
    assert_silent(opened(tmp_path, step(40, name=name)), RULE)


def test_as_many_kernels_elsewhere(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, step(40, span="Optimizer.zero_grad#Adam.zero_grad")), RULE)


def test_fewer_than_fifty_in_a_step(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, step(24)), RULE)
    assert_speaks(
        opened(tmp_path / "more", step(25)),
        RULE,
        cost_ns=447_000,
        gain_ns=447_000,
        evidence=["50 kernels"],
        fix="fused=True",
    )


def test_the_chain_is_not_told_twice(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, step(40)), "unfused-elementwise-chain")
