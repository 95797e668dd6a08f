"""ncu-one-block: blocks so large that an SM holds one."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-one-block"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = {
    SM: 48.0,
    MEMORY: 48.0,
    ACHIEVED: 50.0,
    "launch__registers_per_thread": 32.0,
    "launch__block_size": 1024.0,
    "launch__shared_mem_per_block_driver": 1024.0,
}


def test_blocks_of_1024_threads(tmp_path: Path) -> None:
    """32 of an A10G's 48 warps fit as one block: 66.7 %; of that a quarter is missing."""
    run = profiled(tmp_path, METRICS, threads=1024)
    assert_speaks(
        run,
        RULE,
        cost_ns=2500,
        gain_ns=2500,
        evidence=["one block of 1,024 threads, and 50.0 % of 66.7 % occupancy is reached"],
        fix="smaller blocks",
        severity="warning",
        confidence="medium",
    )
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == RULE


@pytest.mark.parametrize(
    ("change", "threads", "blocks"),
    [
        ({ACHIEVED: 60.0}, 1024, 1600),
        ({"launch__block_size": 256.0}, 256, 1600),
        ({SM: 70.0}, 1024, 1600),
        ({}, 1024, 100),
    ],
    ids=["nearly all of it", "six fit", "a unit binds it", "no second wave"],
)
def test_silence(tmp_path: Path, change: dict[str, float], threads: int, blocks: int) -> None:
    assert_silent(profiled(tmp_path, METRICS | change, threads=threads, blocks=blocks), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {SM: 48.0}), RULE, "--section Occupancy")
