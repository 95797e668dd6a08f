"""unfused-elementwise-chain: pointwise kernels of one shape right behind each other."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        method="bound from a replay: how much of it can be won, the recording does not tell",
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
