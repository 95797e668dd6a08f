"""ncu-fp64: double precision on a device that has little of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-fp64"
# 80 double and 5,120 single precision multiply-adds a cycle, at 1 GHz. In 10 µs these are 800,000
# and 51,200,000.
FMA = "smsp__sass_thread_inst_executed_op_{}fma_pred_on.sum"
PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
METRICS = {
    PEAK.format("d"): 80.0,
    PEAK.format("f"): 5_120.0,
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    FMA.format("d"): 400_000.0,
}


def test_half_of_the_fp64_peak(tmp_path: Path) -> None:
    """A 64th of the time would do: 98.4375 % of what the pipe, half in use, is worth."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=4922,
        gain_ns=4922,
        evidence=["50.0 % of the fp64 peak, which is 64 times lower"],
        fix="single precision",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [{FMA.format("d"): 120_000.0}, {FMA.format("f"): 31_000_000.0}, {PEAK.format("f"): 639.0}],
    ids=["15 % of the peak", "busy with fp32", "7.99 times slower"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section SpeedOfLight")


PIPE = "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed"


def test_a_pipe_that_binds_the_kernel(tmp_path: Path) -> None:
    """Half as fast as single precision, at 64 % of its peak: half of the time is left."""
    metrics = METRICS | {PEAK.format("f"): 160.0, PIPE: 64.0, SM: 64.0, MEMORY: 30.0}
    assert_speaks(
        profiled(tmp_path / "a", metrics),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["FP64 pipe is at 64.0 % of its peak, which is 2 times lower"],
        fix="single precision",
        confidence="medium",
    )
    assert_silent(profiled(tmp_path / "b", metrics | {PIPE: 59.9}), RULE)
    assert_silent(profiled(tmp_path / "c", metrics | {MEMORY: 90.0, DRAM: 90.0}), RULE)


def test_conversions_that_bind_the_kernel(tmp_path: Path) -> None:
    """All of the XU pipe at 90 %; then the FP64 pipe, which has 40 % and would have half of it."""
    counted = {"F2F.F64.F32": 200, "F2F.F32.F64": 200, "DFMA": 200, "LDG.E": 400}
    metrics = METRICS | {
        PEAK.format("f"): 160.0,
        PIPE: 40.0,
        SM: 90.0,
        MEMORY: 18.0,
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed": 90.0,
        "sass__inst_executed_per_opcode_with_modifier_all": (1000.0, counted),
    }
    assert_speaks(
        profiled(tmp_path, metrics),
        RULE,
        cost_ns=7778,
        gain_ns=7778,
        evidence=["conversions between single and double precision are 100.0 %".capitalize()],
        fix="single precision",
    )


@pytest.mark.parametrize(
    ("opcode", "gain_ns"), [("DFMA", 7000), ("MUFU.RSQ64H", 8000)], ids=["sums", "square roots"]
)
def test_what_single_precision_issues(tmp_path: Path, opcode: str, gain_ns: int) -> None:
    """Issue slots are 30 % in use: that stays, unless a root of double takes a dozen of them.

    Then memory is left, 16 % of what four fifths of its peak are.
    """
    issue = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
    counted = (
        "sass__inst_executed_per_opcode_with_modifier_all",
        (150.0, {opcode: 100, "IADD3": 50}),
    )
    metrics = METRICS | {PIPE: 86.0, SM: 86.0, MEMORY: 16.0, issue: 30.0, counted[0]: counted[1]}
    assert_speaks(
        profiled(tmp_path, metrics),
        RULE,
        cost_ns=gain_ns,
        gain_ns=gain_ns,
        evidence=["FP64 pipe is at 86.0 %"],
        fix="single precision",
        confidence="medium",
    )
