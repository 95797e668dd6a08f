"""ncu-tail-effect: a last wave that is partly empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import FULL_SM, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-tail-effect"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = FULL_SM


def test_a_wave_and_a_tenth(tmp_path: Path) -> None:
    """480 blocks are a wave. The second one, of 48, takes as long: 9/10 of half of the time."""
    assert_speaks(
        profiled(tmp_path, METRICS, blocks=528),
        RULE,
        cost_ns=4500,
        gain_ns=4500,
        evidence=["48 blocks"],
        fix="fills the last wave",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize("change", [{ACHIEVED: 98.5}], ids=["busy all the same"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change, blocks=528), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section LaunchStats")


@pytest.mark.parametrize("blocks", [479, 480, 5 * 480 + 48])
def test_waves_that_are_whole_or_many(tmp_path: Path, blocks: int) -> None:
    assert_silent(profiled(tmp_path, METRICS, blocks=blocks), RULE)


def test_four_waves_and_a_tenth(tmp_path: Path) -> None:
    """The last of five: 9/10 of 20 %."""
    assert_speaks(
        profiled(tmp_path, METRICS | {ACHIEVED: 79.9}, blocks=4 * 480 + 48),
        RULE,
        cost_ns=1800,
        gain_ns=1800,
        evidence=["48 blocks"],
        fix="fills the last wave",
    )


def test_a_last_wave_that_is_nearly_full(tmp_path: Path) -> None:
    """Its 432 blocks have to run somewhere: 1/10 of half of the time is all that there is."""
    run = profiled(tmp_path, METRICS, blocks=480 + 432)
    evidence = ["432 blocks"]
    assert_speaks(run, RULE, cost_ns=500, gain_ns=500, evidence=evidence, fix="fills the last wave")


def test_without_registers_a_wave_is_not_known(tmp_path: Path) -> None:
    metrics = {ACHIEVED: 50.0, "launch__block_size": 256.0}
    assert_silent(profiled(tmp_path, metrics, blocks=528), RULE)


def test_no_more_than_is_left_to_the_speed_of_light(tmp_path: Path) -> None:
    """The blocks of the last wave have to themselves what four share: the mean tells."""
    assert_speaks(
        profiled(tmp_path, METRICS | {SM: 70.0}, blocks=528),
        RULE,
        cost_ns=3000,
        gain_ns=3000,
        evidence=["48 blocks"],
        fix="fills the last wave",
    )


def test_no_more_than_the_warps_that_were_missing(tmp_path: Path) -> None:
    """A fifth of the room in SMs that have blocks, and these are active for 3/4 of the time."""
    cycles = {"sm__cycles_active.avg": 75.0, "sm__cycles_elapsed.max": 100.0}
    for extra, gain in (({}, 2000), (cycles, 4000)):
        run = profiled(tmp_path / str(gain), METRICS | {ACHIEVED: 80.0} | extra, blocks=528)
        assert_speaks(
            run,
            RULE,
            cost_ns=gain,
            gain_ns=gain,
            evidence=["48 blocks"],
            fix="fills the last wave",
        )
