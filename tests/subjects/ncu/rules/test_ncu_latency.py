"""ncu-latency: neither compute nor memory is busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import FULL_SM, LATENCY, MEMORY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-latency"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
METRICS = {SM: 30.0, MEMORY: 20.0, "launch__waves_per_multiprocessor": 4.0}


def test_30_percent_of_the_peak(tmp_path: Path) -> None:
    """70 % are left to the nearer of both limits."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=7000,
        gain_ns=7000,
        evidence=["SM 30.0 %, memory 20.0 %"],
        fix="more warps per SM",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "change",
    [{MEMORY: 60.0}, {"launch__waves_per_multiprocessor": 0.9}],
    ids=["60 %", "less than a wave"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


@pytest.mark.parametrize(
    "missing",
    [{MEMORY: float("nan"), DRAM: 81.0}, {SM: float("nan")}, {MEMORY: None}],
    ids=["busy memory", "no SM", "no memory"],
)
def test_a_value_that_is_missing_is_not_low(tmp_path: Path, missing: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | missing), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")


def test_what_to_look_at_is_what_was_recorded(tmp_path: Path) -> None:
    """Without warp states their table is empty: the advice is to record them."""
    (bare,) = answers(profiled(tmp_path / "a", METRICS), RULE)
    assert "ncu --section WarpStateStats" in (bare.fix or "")
    (known,) = answers(profiled(tmp_path / "b", METRICS | {LATENCY: 20.0}), RULE)
    assert "sightline stats stalls" in (known.fix or "")


def test_warps_that_fit_and_are_not_there(tmp_path: Path) -> None:
    """All warps fit, and 70 % of them are active on average: some end long before the others."""
    active = {"sm__warps_active.avg.pct_of_peak_sustained_active": 70.0}
    (found,) = answers(profiled(tmp_path, METRICS | FULL_SM | active), RULE)
    assert "even out the work of threads and blocks" in (found.fix or "")
    assert "(100.0 %, 70.0 %)" in (found.fix or "")
