"""ncu-function-calls: what a call and its return cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-function-calls"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
# 100 calls are 600 of 1,000 instructions.
COUNTED = {"CALL.REL.NOINC": 100, "RET.REL.NODEC": 100, "FFMA": 800}
METRICS = {OPCODES: (1000.0, COUNTED), SM: 50.0, MEMORY: 20.0}


def test_a_call_for_each_ten_instructions(tmp_path: Path) -> None:
    """60 % of what a warp does; the SM keeps 20 % to do, and memory as much."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=6000,
        gain_ns=6000,
        evidence=["60.0 % of the instructions: one call for each 10"],
        fix="__forceinline__",
        severity="warning",
        confidence="medium",
    )


def test_where_memory_has_more_to_do(tmp_path: Path) -> None:
    """60 % of what the SM is worth, and memory leaves 30 %."""
    run = profiled(tmp_path, METRICS | {MEMORY: 70.0})
    assert_speaks(run, RULE, cost_ns=3000, gain_ns=3000, evidence=["60.0 %"], fix="inline")


@pytest.mark.parametrize(
    "counted",
    [COUNTED | {"FFMA": 2810}, COUNTED | {"RET.REL.NODEC": 0}, {"FFMA": 1000}],
    ids=["less than a fifth", "calls that do not return", "none"],
)
def test_silence(tmp_path: Path, counted: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | {OPCODES: (1000.0, counted)}), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section InstructionStats")
