"""small-blocks: blocks of few threads, on a GPU whose SMs hold 16 blocks and 48 warps."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE = "small-blocks"
GPU = {"id": 0, "name": "NVIDIA GeForce RTX 3090", "numSms": 82, "computeMajor": 8}


def run_of(folder: Path, *kernels: tuple[str, int, list[int], int]) -> Run:
    """Kernels (name, blocks, block, µs) one after another from 200 µs on, launched before."""
    events, begin = [], 200
    for i, (name, blocks, block, length) in enumerate(kernels):
        shape = {"grid": [blocks, 1, 1], "block": block, "registers per thread": 16}
        events.append(launched(10 * i, kernel(name, begin, length, **shape)))
        begin += length
    return opened(folder, events, deviceProperties=[{**GPU, "computeMinor": 6}])


def test_half_a_warp(tmp_path: Path) -> None:
    """Half of the lanes, and 16 of 48 warps where 24 are enough: a third of 600 µs remains."""
    assert_speaks(
        run_of(tmp_path, ("sweep", 100_000, [4, 4, 1], 600), ("wide", 100_000, [256, 1, 1], 400)),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["`sweep` runs with 100,000 blocks of 16 threads", "16 of 32 lanes have a thread"],
        fix="a multiple of the warp",
        severity="critical",
        confidence="medium",
    )


def test_one_warp_for_four_schedulers(tmp_path: Path) -> None:
    """82 blocks of one warp: a quarter of each multiprocessor's schedulers has work."""
    (found,) = answers(run_of(tmp_path, ("walk", 82, [32, 1, 1], 400)), RULE)
    assert found.gain_ns == 300_000
    assert "25.0 % of the schedulers" in found.evidence[-1]


def test_no_multiple_of_a_warp(tmp_path: Path) -> None:
    """100 of 128 lanes, four warps: 100 of 128 parts remain, and how much is gained is unsure."""
    (found,) = answers(run_of(tmp_path, ("sweep", 8200, [100, 1, 1], 256)), RULE)
    assert (found.gain_ns, found.confidence) == (56_000, "low")


@pytest.mark.parametrize(
    "kernels",
    [
        [("wide", 100_000, [256, 1, 1], 400)],
        [("pairs", 100_000, [64, 1, 1], 400)],  # 32 of 48 warps: enough
        [("odd", 82_000, [250, 1, 1], 400)],  # 250 of 256 lanes
        [("sweep", 82_000, [4, 4, 1], 9), ("wide", 82_000, [256, 1, 1], 9)],  # short
        [("sweep", 82_000, [4, 4, 1], 20), ("wide", 82_000, [256, 1, 1], 900)],  # hardly matters
        [("void cub::DeviceScanKernel<int>()", 82_000, [4, 4, 1], 400)],  # a library's
    ],
    ids=["full", "enough", "nearly full", "short", "small", "library"],
)
def test_healthy(tmp_path: Path, kernels: list[tuple[str, int, list[int], int]]) -> None:
    assert_silent(run_of(tmp_path, *kernels), RULE)
