"""ncu-issue-slots: schedulers that seldom issue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import ISSUE, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-issue-slots"
METRICS = {
    SM: 50.0,
    ISSUE: 0.4,
    "smsp__warps_active.avg.per_cycle_active": 8.0,
    "smsp__warps_eligible.avg.per_cycle_active": 0.5,
}


def test_an_instruction_every_2_5_cycles(tmp_path: Path) -> None:
    """60 % of the slots are empty, but only 50 % are left to the limit."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["issues every 2.5 cycles", "of 8.00 active warps 0.50 are eligible"],
        fix="occupancy",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize("change", [{ISSUE: 0.6}], ids=["0.6 per cycle"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SchedulerStats")


def test_none_at_all(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {ISSUE: 0.0}),
        RULE,
        cost_ns=8_000,  # an empty kernel takes 2 of 10 µs
        gain_ns=8_000,
        evidence=["No issues"],
        fix="occupancy",
    )
