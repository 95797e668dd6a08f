"""few-blocks: kernels that leave most of an A100's 108 multiprocessors empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE = "few-blocks"
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}


def run_of(folder: Path, *kernels: tuple[str, int, int]) -> Run:
    """Kernels (name, blocks, µs) one after another from 200 µs on, launched before."""
    events, begin = [], 200
    for i, (name, blocks, length) in enumerate(kernels):
        shape = {"grid": [blocks, 1, 1], "block": [256, 1, 1]}
        events.append(launched(10 * i, kernel(name, begin, length, **shape)))
        begin += length
    return opened(folder, events, deviceProperties=[{**A100, "computeMinor": 0}])


def test_two_of_20_blocks(tmp_path: Path) -> None:
    """Side by side, what remains of each 100 and 60 µs is 100 µs."""
    found = assert_speaks(
        run_of(tmp_path, *[("left", 20, 100), ("right", 20, 60)] * 5),
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=["20 blocks of 256 threads on 108 multiprocessors", "between nothing and this"],
        fix="streams of their own",
        severity="critical",
        title="Kernels of few blocks one after another",
    )
    assert (found.method or "").startswith("bound")


def test_one_block(tmp_path: Path) -> None:
    """Of 540 µs a hundred-and-eighth remains, 5 µs."""
    assert_speaks(
        run_of(tmp_path, ("scan", 1, 540), ("wide", 1000, 460)),
        RULE,
        cost_ns=535_000,
        gain_ns=535_000,
        evidence=["1 block of 256 threads on 108 multiprocessors"],
        fix="more blocks",
        title="Kernels of few blocks",
    )


@pytest.mark.parametrize(
    "kernels",
    [
        [("left", 20, 100)] * 5,  # one kernel again and again may need its own result
        [("left", 20, 100), ("right", 55, 100)],  # more than half of the multiprocessors
        [("left", 20, 19), ("right", 20, 19)],  # as short as launches
        [("left", 20, 100), ("ampere_sgemm_32x32_tn", 20, 100)],  # a library chose the grid
        [("left", 20, 100), ("wide", 1000, 100), ("right", 20, 100)],  # not in a row
    ],
    ids=["the same", "half", "short", "library", "apart"],
)
def test_nothing_could_run_beside_it(tmp_path: Path, kernels: list[tuple[str, int, int]]) -> None:
    assert_silent(run_of(tmp_path, *kernels), RULE)


def test_what_runs_beside_another_kernel(tmp_path: Path) -> None:
    shape = {"grid": [20, 1, 1], "block": [256, 1, 1]}
    both = [
        launched(10 * i, kernel(name, 200, 100, stream=7 + i, **shape))
        for i, name in enumerate(("left", "right"))
    ]
    run = opened(tmp_path, both, deviceProperties=[{**A100, "computeMinor": 0}])
    assert_silent(run, RULE)
