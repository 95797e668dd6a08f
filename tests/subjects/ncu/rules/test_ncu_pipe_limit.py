"""ncu-pipe-limit: one pipe of the SM is busy nearly all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profiled import profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE, ENDING = "ncu-pipe-limit", "avg.pct_of_peak_sustained_elapsed"
FP64 = f"sm__pipe_fp64_cycles_active.{ENDING}"
METRICS = {
    FP64: 80.0,
    f"sm__pipe_fma_cycles_active.{ENDING}": 12.0,
    f"sm__inst_executed_pipe_lsu.{ENDING}": 40.0,
}


def test_the_busiest_pipe_is_named_and_no_gain_is_claimed(tmp_path: Path) -> None:
    found = assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["fp64", "80.0 %"],
        fix="mixed precision",
        severity="info",
    )
    assert found.where["subject"] == "fp64"


@pytest.mark.parametrize(
    ("pipe", "fix"),
    [
        ("sm__pipe_fmaheavy_cycles_active", "tensor cores"),
        ("sm__inst_executed_pipe_adu", "another pipe"),
    ],
)
def test_what_helps_other_pipes(tmp_path: Path, pipe: str, fix: str) -> None:
    assert_speaks(
        profiled(tmp_path, {f"{pipe}.{ENDING}": 90.0}),
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["90.0 %"],
        fix=fix,
    )


def test_under_80_percent(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, METRICS | {FP64: 79.9}), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section ComputeWorkloadAnalysis")
