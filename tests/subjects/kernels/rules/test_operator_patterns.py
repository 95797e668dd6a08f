"""operator-patterns: what of matched operators stays, forward and backward, on an H100."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.copies import transfer
from support.operators import backward, op, run_of
from support.rules import answers, assert_silent, assert_speaks
from support.traces import host, kernel, launched, opened
from support.traces import op as operator

RULE = "operator-patterns"
X = [3350, 2500]  # 33.5 MB of floats: 10 µs at 3.35 TB/s
UP = "Memcpy HtoD (Pageable -> Device)"
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


def masks(folder: Path, *, made: list[int], times: int = 3) -> Run:
    """Steps of 10 ms: a mask is filled, cut and copied in 6 of them, and 4 ms of kernels follow."""
    size, events = [[1024, 1024], []], []
    for i in range(times):
        at = 10_000 * i
        events += [
            operator("aten::fill_", at, 2_000, **{"Input Dims": [made, []]}),
            operator("aten::triu", at + 2_010, 2_000, **{"Input Dims": size}),
            operator("aten::copy_", at + 4_050, 1_900, **{"Input Dims": [size[0], size[0], []]}),
            launched(at + 4_060, transfer(UP, at + 4_100, 1_800, 4 << 20), dur=1_850),
            launched(at + 5_970, kernel("k", at + 6_000, 4_000)),
        ]
    return opened(folder, events)


def test_a_mask_that_is_made_on_the_host_in_each_step(tmp_path: Path) -> None:
    """3 × 1.8 ms of copies, and 2 × 4.05 ms before them: the window begins with the first copy."""
    (found,) = answers(masks(tmp_path, made=[1024, 1024]), RULE)
    assert found.where["pattern"] == "made-on-host"
    assert found.gain_ns is not None and found.cost_ns is not None
    assert 3 * 1_800_000 + 2 * 4_050_000 <= found.gain_ns <= 14_000_000
    assert found.gain_ns <= found.cost_ns


@pytest.mark.parametrize(("made", "times"), [([8], 3), ([1024, 1024], 1)], ids=["other", "once"])
def test_what_is_read_elsewhere_or_sent_once_is_not_made(
    tmp_path: Path, made: list[int], times: int
) -> None:
    assert_silent(masks(tmp_path, made=made, times=times), RULE)


def steps_that_clear(folder: Path, *, pause: int) -> Run:
    """Steps that clear 20 gradients one by one, 100 µs each, a pause before the first."""
    events, at = [], 0
    for _ in range(4):
        at += pause
        fills = [at + 100 * i for i in range(20)]
        events.append(host("user_annotation", "Optimizer.zero_grad#AdamW.zero_grad", at, 2_000))
        for begin in fills:
            fill = kernel("FillFunctor", begin + 85, 5)
            events += [operator("aten::fill_", begin + 2, 90), launched(begin + 70, fill)]
        events.append(launched(at + 2_010, kernel("k", at + 2_050, 1_000)))
        at += 2_100
    return opened(folder, events)


def test_a_pause_before_a_pattern_is_not_its_own(tmp_path: Path) -> None:
    """4 × 2 ms of host time clear gradients; 20 ms of something else come before each."""
    (found,) = answers(steps_that_clear(tmp_path, pause=20_000), RULE)
    assert found.where["pattern"] == "gradients-cleared"
    assert found.gain_ns is not None and found.cost_ns is not None
    assert found.gain_ns <= found.cost_ns <= 4 * 3_000_000
