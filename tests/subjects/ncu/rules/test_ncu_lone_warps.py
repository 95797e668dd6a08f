"""ncu-lone-warps: one warp works while all that were launched beside it have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.subjects.ncu.rules import ncu_debug_build
from support.profiled import FULL_SM, MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-lone-warps"
ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
CYCLES, ALL = "sm__cycles_active.avg", "sm__cycles_elapsed.max"
# 40 blocks of 8 warps fit at once. One warp of an SM's 48 works, on one of 80 SMs.
METRICS = {
    **FULL_SM,
    SM: 0.4,
    MEMORY: 0.1,
    ACTIVE: 100 / 48,
    CYCLES: 1_000.0,
    ALL: 80_000.0,
    "launch__waves_per_multiprocessor": 40 / 480,
}


def test_one_warp_of_all(tmp_path: Path) -> None:
    run = profiled(tmp_path, METRICS, blocks=40, time=1e6)
    assert_speaks(
        run,
        RULE,
        cost_ns=996_000,
        gain_ns=996_000,  # and 319 of 320 without what is busy
        evidence=["Of 320 warps that fit on the GPU at once 1.0 is at work on average"],
        fix="give each thread one item",
        severity="warning",
    )
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == RULE


@pytest.mark.parametrize(
    "change",
    [{ACTIVE: 85.0, CYCLES: 79_000.0}, {CYCLES: 40 * 1_000.0, ACTIVE: 100 / 48 * 8}],
    ids=["all work", "half of all SMs, full"],
)
def test_silence(tmp_path: Path, change: dict[str, float]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change, blocks=40, time=1e6), RULE)


def test_a_kernel_that_hardly_begins(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, METRICS, blocks=40, time=5_000.0), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {SM: 20.0}), RULE, "--section Occupancy")


@pytest.mark.parametrize(
    ("change", "blocks", "threads", "at_fault"),
    [({}, 40, 256, True), ({ACTIVE: 80.0, CYCLES: 8e4}, 400, 256, False), ({}, 1, 1, True)],
    ids=["one warp works", "all work", "one thread"],
)
def test_what_no_build_changes(
    tmp_path: Path, change: dict[str, float], blocks: int, threads: int, at_fault: bool
) -> None:
    run = profiled(tmp_path, METRICS | change, blocks=blocks, threads=threads, time=1e6)
    assert ncu_debug_build.is_launch_at_fault(run) is at_fault
