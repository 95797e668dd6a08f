"""operator-patterns: what of matched operators stays, forward and backward, on an H100."""

from __future__ import annotations

from pathlib import Path

from support.operators import backward, op, run_of
from support.rules import answers, assert_silent, assert_speaks

RULE = "operator-patterns"
X = [3350, 2500]  # 33.5 MB of floats: 10 µs at 3.35 TB/s
OTHER = op("aten::mm", [64, 64], [64, 64])


def test_three_operators_become_one_pass(tmp_path: Path) -> None:
    """Of 300 µs two passes of 10 µs stay."""
    found = assert_speaks(
        run_of(tmp_path, op("aten::mul", X), op("aten::sigmoid", X), op("aten::mul", X), OTHER),
        RULE,
        cost_ns=280_000,
        gain_ns=280_000,
        evidence=["1 × aten::sigmoid [[3350,2500]], 100.0 µs"],
        fix="silu",
        severity="critical",
    )
    assert found.where["pattern"] == "quick-gelu"
    assert (found.method or "").startswith("bound")


def test_backward_goes_with_it(tmp_path: Path) -> None:
    """Forward keeps 3 passes of 200 µs, backward 4.5 of 100: 170 and 55 µs are saved."""
    run = run_of(
        tmp_path,
        op("aten::silu", X, sequence=3),
        op("aten::mul", X, X, sequence=4),
        backward("MulBackward0", 4, op("aten::mul", X, X)),
        OTHER,
    )
    assert_speaks(run, RULE, cost_ns=225_000, gain_ns=225_000, evidence=[], fix="fused kernel")


def test_a_kernel_is_of_one_pattern(tmp_path: Path) -> None:
    """A quick GELU holds a sigmoid and a product, which are not said again."""
    run = run_of(tmp_path, op("aten::mul", X), op("aten::sigmoid", X), op("aten::mul", X))
    assert [f.where["pattern"] for f in answers(run, RULE)] == ["quick-gelu"]


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """Nothing is saved of kernels that are as fast as the memory: 10 passes of 10 µs."""
    large = [33_500, 2500]
    assert_silent(run_of(tmp_path, op("aten::silu", large), op("aten::mul", large)), RULE)
