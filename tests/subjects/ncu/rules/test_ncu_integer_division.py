"""ncu-integer-division: the 20 instructions of an integer division."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import L1, MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-integer-division"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
PIPE = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed"
ISSUED = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
# 30 divisions are 600 of 1,000 instructions, and 90 of the 100 of the XU pipe.
COUNTED = {"I2F.U32.RP": 30, "MUFU.RCP": 30, "F2I.U32.TRUNC": 30, "MUFU.EX2": 10, "IMAD": 900}
METRICS = {
    OPCODES: (1000.0, COUNTED),
    SM: 80.0,
    MEMORY: 20.0,
    L1: 20.0,
    PIPE: 80.0,
    ISSUED: 50.0,
}


def test_three_fifths_of_the_instructions(tmp_path: Path) -> None:
    """Of the XU pipe 8 % are left, of the issue slots 20 %, as is of memory: of 80 %, a quarter."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["integer divisions are 60.0 % of the instructions".capitalize()],
        fix="powers of two",
        severity="warning",
        confidence="medium",
    )


def test_in_a_kernel_that_waits(tmp_path: Path) -> None:
    """They give back the time in which they are issued: 60 % of 40 %."""
    run = profiled(tmp_path, METRICS | {SM: 40.0, PIPE: 40.0})
    assert_speaks(run, RULE, cost_ns=2400, gain_ns=2400, evidence=["60.0 %"], fix="constants")


@pytest.mark.parametrize(
    "change",
    [
        {OPCODES: (1000.0, COUNTED | {"F2I.U32.TRUNC": 9})},
        {OPCODES: (1000.0, {"FFMA": 1000})},
    ],
    ids=["9 of 1,000", "none"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section InstructionStats")
