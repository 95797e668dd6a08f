"""ncu-imbalance: units that work unequally long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, MEMORY, profiled
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
    """In the mean they end when the busiest has half of its work to do."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
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
    """6 % of 94 % are 5.64 %; the cycles after the mean end are 6 %."""
    assert_speaks(
        profiled(tmp_path, cycles("smsp", 94.0)),
        RULE,
        cost_ns=600,
        gain_ns=600,
        evidence=["schedulers are active 94.0 %"],
        fix="even out",
    )


def test_memory_counts_where_it_binds_the_kernel(tmp_path: Path) -> None:
    """20 % of 90 %; what is not a limit may be as uneven as it likes."""
    uneven = cycles("dram", 80.0)
    assert_speaks(
        profiled(tmp_path, uneven | {MEMORY: 90.0, DRAM: 90.0}),
        RULE,
        cost_ns=1800,
        gain_ns=1800,
        evidence=["memory channels are active 80.0 %"],
        fix="even out",
    )
    assert_silent(profiled(tmp_path / "a", uneven | {MEMORY: 50.0, DRAM: 50.0}), RULE)
    assert_silent(profiled(tmp_path / "b", uneven | {MEMORY: 99.0, L1: 99.0, DRAM: 7.0}), RULE)


def test_schedulers_say_no_more_than_their_sms(tmp_path: Path) -> None:
    run = profiled(tmp_path, METRICS | cycles("smsp", 50.0))
    assert_speaks(run, RULE, cost_ns=5000, gain_ns=5000, evidence=["SMs"], fix="even out")
