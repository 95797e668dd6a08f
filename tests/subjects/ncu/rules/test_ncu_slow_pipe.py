"""ncu-slow-pipe: one slow pipe is full, while most issue slots are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profiled import SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE, ENDING = "ncu-slow-pipe", "avg.pct_of_peak_sustained_active"
THROUGHPUT, ISSUED = f"sm__instruction_throughput.{ENDING}", f"sm__inst_issued.{ENDING}"
PIPE = f"sm__inst_executed_pipe_{{}}.{ENDING}"
METRICS = {
    SM: 90.0,
    THROUGHPUT: 85.0,
    ISSUED: 15.0,
    PIPE.format("fp64"): 85.0,
    PIPE.format("alu"): 5.0,
    PIPE.format("fma"): 0.0,
}


def test_fp64_at_85_percent(tmp_path: Path) -> None:
    """The mean of 85, 5 and 0 is 30: (85 − 30) / 85 of the SM's 90 % are 58.24 %."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5824,
        gain_ns=5824,
        evidence=["fp64", "85.0 %", "15.0 %", "30.0 %"],
        fix="another precision",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [
        {THROUGHPUT: 79.0},
        {ISSUED: 20.0},
        {PIPE.format("alu"): 80.0, PIPE.format("fma"): 80.0},
        {THROUGHPUT: None},
    ],
    ids=["throughput", "issue slots", "pipes alike", "throughput not measured"],
)
def test_silence_where_one_condition_is_not_met(
    tmp_path: Path, change: dict[str, float | None]
) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section ComputeWorkloadAnalysis")
