"""reduced-each-micro-step: gradients that are reduced more often than the optimizer runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import findings
from sightline.core.model.run import Run
from support.rules import answers, assert_silent
from support.traces import collective, kernel, launched, op, opened

RULE = "reduced-each-micro-step"
BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"
MICRO_STEPS, BUCKETS = 4, (6_000_000, 2_000_000)  # floats


def train(
    folder: Path, reduce_in: Any, *, backward: bool = True, buckets: tuple[int, ...] = BUCKETS
) -> Run:
    """Three steps of four micro-steps: forward 1 ms, backward 2 ms, 2 × 3 ms of all-reduce where
    `reduce_in` says so, and the optimizer."""
    events: list[Any] = []
    calls, at = iter(range(0, 10_000, 10)), 2_000  # the host is far ahead
    for _ in range(3):
        for micro in range(MICRO_STEPS):
            events += launched(next(calls), kernel("forward_gemm", at, 1_000))
            called = next(calls)
            if backward:
                events += [op(BACKWARD, called - 1, 8)]
            events += launched(called, kernel("backward_gemm", at + 1_000, 2_000))
            at += 3_000
            if not reduce_in(micro):
                continue
            for floats in buckets:
                called = next(calls)
                events += [op(BACKWARD if backward else "forward", called - 1, 8)]
                events += launched(called, collective(at, 3_000, floats=floats, stream=20))
                at += 3_000
        events += launched(next(calls), kernel("multi_tensor_apply_kernel", at, 100))
        at += 200
    return opened(folder, events)


def test_three_of_four_rounds_are_not_needed(tmp_path: Path) -> None:
    run = train(tmp_path, lambda micro: True)
    (found,) = answers(run, RULE)
    # 3 steps of 3 early rounds of 6 ms; the last step's rounds are all before its optimizer.
    assert found.cost_ns == pytest.approx(3 * 3 * 6_000_000, rel=0.02)
    assert found.gain_ns == pytest.approx(3 * 3 * 6_000_000, rel=0.02)
    assert "no_sync" in found.fix
    assert next(f for f in findings(run) if f.gain_ns).rule == RULE


def test_one_round_a_step_is_as_it_should_be(tmp_path: Path) -> None:
    assert_silent(train(tmp_path, lambda micro: micro == MICRO_STEPS - 1), RULE)


def test_reductions_in_forward_are_of_activations(tmp_path: Path) -> None:
    """Tensor parallelism: who knows backward work sees that these are not launched by it."""
    run = train(tmp_path, lambda micro: True, backward=False)
    marked = [f for f in answers(run, RULE) if f.confidence == "high"]
    assert marked == []


def test_one_size_in_each_backward_pass(tmp_path: Path) -> None:
    run = train(tmp_path, lambda micro: True, buckets=(8_000_000,))
    (found,) = answers(run, RULE)
    assert found.gain_ns == pytest.approx(3 * 3 * 3_000_000, rel=0.02)


def test_equal_buckets_of_one_backward_pass_are_no_rounds(tmp_path: Path) -> None:
    """Four buckets of one size look like four rounds, but no forward work lies between them."""
    run = train(tmp_path, lambda micro: micro == MICRO_STEPS - 1, buckets=(8_000_000,) * 4)
    assert_silent(run, RULE)
