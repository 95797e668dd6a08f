"""ncu-imbalance: units that work unequally long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-imbalance"
CYCLES = "{}__cycles_{}"


def cycles(unit: str, mean: float, most: float = 100.0) -> dict[str, float]:
    """Active cycles of a unit, of 100 that the kernel took."""
    return {
        CYCLES.format(unit, "active.avg"): mean,
        CYCLES.format(unit, "active.max"): most,
        CYCLES.format(unit, "elapsed.max"): 100.0,
    }


METRICS = cycles("sm", 50.0)


def test_sms_that_work_half_as_long_as_the_busiest(tmp_path: Path) -> None:
    """Half of half of the kernel's time."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=2500,
        gain_ns=2500,
        evidence=["SMs are active 50.0 %"],
        fix="even out the work",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "change", [cycles("sm", 95.0), cycles("sm", 0.0, 0.0)], ids=["95 of 100", "no cycles"]
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WorkloadDistribution")


def test_from_5_percent_on(tmp_path: Path) -> None:
    """6 % of 94 % are 5.64 %."""
    assert_speaks(
        profiled(tmp_path, cycles("smsp", 94.0)),
        RULE,
        cost_ns=564,
        gain_ns=564,
        evidence=["schedulers are active 94.0 %"],
        fix="even out",
    )


def test_memory_counts_as_far_as_it_is_used(tmp_path: Path) -> None:
    """20 % of 80 % are 16 %, at half of the peak."""
    assert_speaks(
        profiled(tmp_path, cycles("dram", 80.0) | {MEMORY: 50.0}),
        RULE,
        cost_ns=800,
        gain_ns=800,
        evidence=["memory channels are active 80.0 %"],
        fix="even out",
    )
