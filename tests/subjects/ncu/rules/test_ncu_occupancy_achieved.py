"""ncu-occupancy-achieved: SMs that hold fewer warps than they could."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import FULL_SM, ISSUE, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-occupancy-achieved"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = FULL_SM | {ACHIEVED: 60.0, SM: 30.0}


def test_60_of_100_percent(tmp_path: Path) -> None:
    """40 % less than the launch allows, with 70 % left to the limit."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["60.0 % of 100"],
        fix="balance the work",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize("change", [{ACHIEVED: 90.0}], ids=["90 %"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section Occupancy")


def test_a_grid_that_does_not_fill_the_sms(tmp_path: Path) -> None:
    """480 blocks do; with one less it is ncu-small-grid that may speak."""
    assert_silent(profiled(tmp_path / "a", METRICS, blocks=479), RULE)
    assert_speaks(
        profiled(tmp_path / "b", METRICS | {SM: 59.0}, blocks=480),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["60.0 %"],
        fix="balance",
    )
    assert_silent(profiled(tmp_path / "c", METRICS | {SM: 79.0}, blocks=480), RULE)


def test_without_registers_nothing_is_allowed_or_forbidden(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {ACHIEVED: 60.0}), RULE)


def test_no_more_than_the_unused_issue_slots(tmp_path: Path) -> None:
    """40 % fewer warps than the launch allows, and 90 % of the issue slots in use all the same."""
    assert_speaks(
        profiled(tmp_path, METRICS | {ISSUE: 0.9}),
        RULE,
        cost_ns=1000,
        gain_ns=1000,
        evidence=["60.0 % of 100"],
        fix="balance",
    )
