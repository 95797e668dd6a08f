"""ncu-few-threads: a report that holds too little to judge."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.profiled import SM, TIME, opened, profiled
from support.rules import answers, assert_abstains, assert_silent
from synth_ncu import Kernel, report

RULE = "ncu-few-threads"


def test_two_blocks_of_four_threads_that_print(tmp_path: Path) -> None:
    """It leads, though the grid has a finding, too."""
    run = profiled(tmp_path, {SM: 1.0}, blocks=2, threads=4, time=60_000.0)
    (found,) = answers(run, RULE)
    assert "1 launch of at most 8 threads, 60.00 µs in all" in found.summary
    assert found.gain is None
    assert [f.rule for f in sightline.findings(run)][:2] == [RULE, "ncu-small-grid"]


@pytest.mark.parametrize(
    ("blocks", "threads", "ns"),
    [(2, 256, 60_000.0), (1, 256, 200_000.0)],
    ids=["two usual blocks", "long"],
)
def test_silence(tmp_path: Path, blocks: int, threads: int, ns: float) -> None:
    assert_silent(profiled(tmp_path, {SM: 1.0}, blocks=blocks, threads=threads, time=ns), RULE)


def test_a_small_kernel_beside_one_that_works(tmp_path: Path) -> None:
    kernels = [
        Kernel(grid=(blocks, 1, 1), block=(32, 1, 1), metrics={TIME: 20_000.0})
        for blocks in (1, 4096)
    ]
    assert_silent(opened(tmp_path, report(kernels)), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {SM: 1.0}, time=None), RULE, "--section LaunchStats")
