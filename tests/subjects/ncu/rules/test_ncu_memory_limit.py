"""ncu-memory-limit: the device memory is the limit, and nothing is to be won."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L2, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-memory-limit"
OLD_DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
METRICS = {DRAM: 80.0}


def test_80_percent_of_the_peak(tmp_path: Path) -> None:
    """A remark."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["Device memory runs at 80.0 %"],
        fix="move less data",
        severity="info",
        confidence="low",
    )


@pytest.mark.parametrize("change", [{DRAM: 79.9}], ids=["less"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")


def test_the_counter_of_older_versions(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {OLD_DRAM: 91.0}),
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["91.0 %"],
        fix="move less data",
    )


def test_the_busier_of_l2_and_device_memory(tmp_path: Path) -> None:
    for l2, unit in ((85.0, "Device memory"), (95.0, "The L2")):
        run = profiled(tmp_path / unit, {DRAM: 90.0, L2: l2})
        assert_speaks(run, RULE, cost_ns=0, gain_ns=0, evidence=[unit], fix="move less data")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("xbar2lts_cycles_active", "by its input from the SMs"),
        ("lts2xbar_cycles_active", "by its output to the SMs"),
        ("d_sectors", "by its data banks"),
    ],
)
def test_the_part_of_the_l2(tmp_path: Path, part: str, words: str) -> None:
    busy = f"lts__{part}.avg.pct_of_peak_sustained_elapsed"
    sectors = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
    run = profiled(tmp_path, {L2: 90.0, busy: 90.0, sectors: 50.0})
    assert_speaks(run, RULE, cost_ns=0, gain_ns=0, evidence=["90.0 %", words], fix="move less data")


def test_a_part_that_was_not_recorded(tmp_path: Path) -> None:
    sectors = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
    found = assert_speaks(
        profiled(tmp_path, {L2: 90.0, sectors: 50.0}),
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["The L2 runs at 90.0 % of its peak: this"],
        fix="move less data",
    )
    assert "sectors" not in found.summary
