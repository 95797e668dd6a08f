"""ncu-memory-limit: the device memory is the limit, and nothing is to be won."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, profiled
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
