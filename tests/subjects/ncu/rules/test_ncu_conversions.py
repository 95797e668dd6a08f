"""ncu-conversions: sums in integers of products that are floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import L1, MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-conversions"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
PIPE = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed"
ISSUED = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
# Of 1,000 instructions 150 go back and as many there; 50 more convert what is loaded.
COUNTED = {"I2F.U8": 50, "I2F": 150, "F2I.TRUNC.NTZ": 150, "FFMA": 650}
METRICS = {
    OPCODES: (1000.0, COUNTED),
    SM: 80.0,
    MEMORY: 20.0,
    L1: 20.0,
    PIPE: 80.0,
    ISSUED: 50.0,
}


def test_three_in_ten_instructions(tmp_path: Path) -> None:
    """Of the XU pipe a seventh is left (11.4 %), of the issue slots 35 %: those bind then."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5625,
        gain_ns=5625,
        evidence=["Conversions there and back are 30.0 %", "85.7 % of those of the XU pipe"],
        fix="sum in the type of the products",
    )


@pytest.mark.parametrize(
    "counted",
    [
        COUNTED | {"MUFU.RCP": 150},
        COUNTED | {"F2I.TRUNC.NTZ": 49, "FFMA": 751},
        {"I2F": 350, "FFMA": 650},
    ],
    ids=["of divisions", "9.8 %", "one way"],
)
def test_silence(tmp_path: Path, counted: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | {OPCODES: (1000.0, counted)}), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section InstructionStats")
