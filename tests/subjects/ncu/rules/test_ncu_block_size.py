"""ncu-block-size: blocks whose last warp is partly empty."""

from __future__ import annotations

from pathlib import Path

from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-block-size"


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


def test_a_multiple_of_32(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {SM: 30.0}, threads=64), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, threads=48, time=None), RULE, "--section LaunchStats")
