"""ncu-constant-divergence: a constant cache that serves a warp in many turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-constant-divergence"
CONSTANTS = "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed"
ISSUED = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
METRICS = {SM: 96.0, CONSTANTS: 96.0, ISSUED: 12.0, MEMORY: 24.0}


def test_the_busiest_part_of_the_sm(tmp_path: Path) -> None:
    """3 % are left of it; memory needs 24, which is a quarter of 96."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["constant cache is busy for 96.0 %", "then memory, at 24.0 %"],
        fix="shared memory",
        severity="warning",
    )


def test_the_unit_that_serves_them_is_no_other_part(tmp_path: Path) -> None:
    adu = "sm__inst_executed_pipe_adu.avg.pct_of_peak_sustained_elapsed"
    assert_speaks(
        profiled(tmp_path, METRICS | {adu: 97.0, SM: 97.0}),
        RULE,
        cost_ns=7526,
        gain_ns=7526,
        evidence=["constant cache is busy for 96.0 %", "then memory, at 24.0 %"],
        fix="shared memory",
        severity="warning",
    )


@pytest.mark.parametrize(
    "change",
    [{CONSTANTS: 59.9, SM: 59.9}, {ISSUED: 97.0, SM: 97.0}],
    ids=["less than 60 %", "more is issued"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")
