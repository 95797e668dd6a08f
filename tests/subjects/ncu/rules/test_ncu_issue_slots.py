"""ncu-issue-slots: schedulers that seldom issue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import ISSUE, LATENCY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-issue-slots"
ACTIVE = "smsp__warps_active.avg.per_cycle_active"
ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"
METRICS = {SM: 50.0, ISSUE: 0.4, ACTIVE: 8.0, ELIGIBLE: 0.5, LATENCY: 20.0}


def test_an_instruction_every_2_5_cycles(tmp_path: Path) -> None:
    """60 % of the slots are empty, but only 50 % are left to the limit."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["issues every 2.5 cycles", "of 8.00 active warps 0.50 are eligible"],
        fix="stall reason",
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
        fix="record why warps wait",
    )


def test_why_few_warps_are_active(tmp_path: Path) -> None:
    """The grid, what a block takes, or neither: many warps, of which none may go on."""
    waves, few = "launch__waves_per_multiprocessor", {ACTIVE: 1.0, ELIGIBLE: 0.2}
    asked = {
        "launch more, smaller blocks": {ISSUE: 0.16, **few, waves: 0.9},
        "raise the occupancy": {ISSUE: 0.16, **few, waves: 40.0},
        "remove the top stall reason": {ISSUE: 0.16, ACTIVE: 11.0, ELIGIBLE: 0.2, LATENCY: 20.0},
    }
    for number, (fix, metrics) in enumerate(asked.items()):
        (found,) = answers(profiled(tmp_path / str(number), metrics), RULE)
        assert fix in found.fix
