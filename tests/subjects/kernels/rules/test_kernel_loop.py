"""kernel-loop: the same tiny kernels over and over, busy with their own starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from support import exports
from support.rules import answers, assert_silent
from support.traces import kernel, launched, op, opened
from synth_nsys import Export
from worlds import kineto
from worlds.truth import judge

RULE = "kernel-loop"
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}
SMALL = {"grid": [4, 1, 1], "block": [128, 1, 1]}
WIDE = {"grid": [4_000, 1, 1], "block": [256, 1, 1]}
NAMES = ("mul_kernel", "add_kernel", "copy_kernel")


def loop(folder: Path, turns: int, *, names: Any = NAMES, of: str = "", **shape: Any) -> Run:
    """3 ms of products, and behind them turns of kernels of 2 µs, 1 µs apart: all queued."""
    shape = shape or SMALL
    events: list[Any] = [*launched(0, kernel("big_gemm", 3_000, 3_000, **WIDE), dur=1)]
    at, call = 6_001, 10
    for _ in range(turns):
        for name in names:
            events += launched(call, kernel(name, at, 2, **shape), dur=1)
            at, call = at + 3, call + 1
    if of:
        events += [op(of, 5, call)]
    events += launched(call + 10, kernel("big_gemm", at, 3_000, **WIDE), dur=1)
    return opened(folder, events, deviceProperties=[{**A100, "computeMinor": 0}])


def test_a_loop_of_768_kernels_could_be_one_turn(tmp_path: Path) -> None:
    (found,) = answers(loop(tmp_path, 256), RULE)
    # 768 kernels of 2 µs and their gaps, less one turn and what they need of a full GPU.
    whole = 768 * 3_000
    assert found.gain_ns == pytest.approx(whole, rel=0.06)
    assert found.gain_ns <= whole
    assert "768 launches" in found.summary
    assert found.method.startswith("bound")


def test_kernels_that_fill_the_gpu_are_work(tmp_path: Path) -> None:
    assert_silent(loop(tmp_path, 256, grid=[2_000, 1, 1], block=[128, 1, 1]), RULE)


def test_layers_are_no_loop(tmp_path: Path) -> None:
    """24 turns, or turns of seven kernels, are how networks are built."""
    assert_silent(loop(tmp_path, 24), RULE)
    seven = [f"kernel_{n}" for n in range(7)]
    assert_silent(loop(tmp_path / "seven", 60, names=seven), RULE)


def test_an_optimizers_loop_is_another_rules(tmp_path: Path) -> None:
    assert_silent(loop(tmp_path, 256, of="Optimizer.step#SGD.step"), RULE)


@pytest.mark.parametrize(("program", "severity"), [("transformer", 1.7), ("recommender", 1.0)])
def test_the_loop_of_a_simulated_loss(tmp_path: Path, program: str, severity: float) -> None:
    case = judge(program, {"loss-loop": severity}, 2, "nvidia")
    run = sightline.open(*map(str, kineto.write_run(case.run, tmp_path, "new", case.seed)))
    first = next(f for f in sightline.findings(run) if f.gain_ns)
    assert first.rule == RULE
    assert first.gain_ns == pytest.approx(case.gains["loss-loop"], rel=0.1)


@pytest.mark.parametrize(("blocks", "barriers"), [(1, 0), (4, 100)])
def test_a_program_of_its_own_keeps_a_barrier_for_each_launch(
    tmp_path: Path, blocks: int, barriers: int
) -> None:
    """100 turns of 4 µs, queued: what stays is one turn, or 1.4 µs for each launch of 4 blocks."""
    us, e = 1_000, Export()
    e.add("TARGET_INFO_GPU", id=0, name="NVIDIA A100-SXM4-80GB", smCount=108)
    for i in range(100):
        e.api("cudaLaunchKernel", i * us, i * us + 500, i + 1)
        shape = {"gridX": blocks, "blockX": 128}
        start = (200 + 4 * i) * us
        e.kernel("turn(int*)", start, start + 4 * us, i + 1, **shape)
    (found,) = answers(exports.opened(tmp_path, e), RULE)
    left = max(4 * us, 100 * 4 * us * blocks / 108 + barriers * 1_400)
    assert found.cost_ns == pytest.approx(400 * us - left, rel=0.02)
