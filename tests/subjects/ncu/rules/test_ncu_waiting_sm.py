"""ncu-waiting-sm: an SM that is active long after the others, with no more to execute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import findings
from support.profiled import FULL_SM, MEMORY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-waiting-sm"
EXECUTED = "sm__inst_executed.{}.pct_of_peak_sustained_elapsed"
METRICS = {
    "sm__cycles_active.avg": 10.0,
    "sm__cycles_active.max": 98.0,
    "sm__cycles_elapsed.max": 100.0,
    EXECUTED.format("avg"): 0.45,
    EXECUTED.format("max"): 0.50,
    SM: 0.5,
    MEMORY: 1.7,
}


def test_one_sm_waits_for_most_of_the_kernel(tmp_path: Path) -> None:
    """A flag in unified memory that the host has written: 88 of 100 cycles behind the others,
    of which an empty kernel's 2 µs stay."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=8000,
        gain_ns=8000,
        evidence=["active for 98.0 % of the kernel", "1.1 times"],
        fix="cudaMemsetAsync",
        severity="warning",
        confidence="medium",
    )


def test_it_takes_in_what_says_the_same(tmp_path: Path) -> None:
    """Imbalance and latency are no causes where the work is even."""
    said = findings(profiled(tmp_path, METRICS))
    assert [f.rule for f in said if f.severity != "info" and not f.abstained] == [RULE]


def test_few_warps_at_work_are_those_that_wait(tmp_path: Path) -> None:
    """By the counters a few warps do all the work; that they execute no more says they wait."""
    few = {
        **FULL_SM,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 40.0,
        "sm__cycles_active.avg": 5.0,
    }
    run = profiled(tmp_path, METRICS | few, time=80_000.0)
    assert answers(run, "ncu-lone-warps")
    said = [f for f in findings(run) if not f.abstained]
    assert said[0].rule == RULE
    assert "ncu-lone-warps" not in [f.rule for f in said]


@pytest.mark.parametrize(
    "change",
    [
        {EXECUTED.format("max"): 2.0},
        {"sm__cycles_active.avg": 40.0},
        {MEMORY: 30.0},
        {EXECUTED.format("avg"): None},
    ],
    ids=["it has more to do", "nearly as long", "memory is busy", "instructions not counted"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WorkloadDistribution")
