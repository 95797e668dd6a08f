"""ncu-block-size: blocks whose last warp is partly empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profiled import DRAM, L1, MEMORY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE, WAVES = "ncu-block-size", "launch__waves_per_multiprocessor"


def test_48_threads_in_two_warps(tmp_path: Path) -> None:
    """16 of 64 lanes are idle, at 40 % of the higher throughput."""
    assert_speaks(
        profiled(tmp_path, {SM: 30.0, MEMORY: 40.0}, threads=48),
        RULE,
        cost_ns=1000,
        gain_ns=1000,
        evidence=["48 threads in 2 warps", "25.0 %"],
        fix="multiple of 32",
        severity="warning",
        confidence="low",
    )


def test_without_throughputs(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {}, threads=48),
        RULE,
        cost_ns=2500,
        gain_ns=2500,
        evidence=["25.0 %"],
        fix="multiple of 32",
    )


def test_blocks_under_a_warp_that_keep_the_l1_busy(tmp_path: Path) -> None:
    """8 of 32 lanes: full warps need a fourth of the L1's 80 %, and device memory its 30 %."""
    metrics = {SM: 40.0, L1: 80.0, DRAM: 30.0, WAVES: 3.0}
    assert_speaks(
        profiled(tmp_path, metrics, threads=8),
        RULE,
        cost_ns=6250,
        gain_ns=6250,
        evidence=["8 threads in 1 warp", "then device memory, at 30.0 %"],
        fix="dim3(32, 8)",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize(("waves", "gain_ns"), [(3.0, 7500), (1.0, 1500)])
def test_blocks_under_a_warp_that_wait(tmp_path: Path, waves: float, gain_ns: int) -> None:
    """In one wave all wait at once today: fewer warps wait as long, and only issue less."""
    metrics = {SM: 20.0, MEMORY: 10.0, DRAM: 10.0, WAVES: waves}
    (found,) = answers(profiled(tmp_path, metrics, threads=8), RULE)
    assert found.gain_ns == gain_ns


def test_one_thread_alone_fills_no_warp(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {SM: 30.0}, blocks=1, threads=1), RULE)


def test_a_multiple_of_32(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {SM: 30.0}, threads=64), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, threads=48, time=None), RULE, "--section LaunchStats")
