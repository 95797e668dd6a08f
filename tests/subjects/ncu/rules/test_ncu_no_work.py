"""ncu-no-work: warps that end at once."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.profiled import SM, profiled
from support.rules import answers, assert_abstains, assert_silent

RULE = "ncu-no-work"
EXECUTED, STORES = "smsp__inst_executed.sum", "smsp__inst_executed_op_global_st.sum"


def test_two_instructions_a_warp(tmp_path: Path) -> None:
    """64 blocks of 256 threads are 512 warps; it leads whatever else is said."""
    run = profiled(tmp_path, {SM: 1.0, EXECUTED: 1024.0}, blocks=64, time=1_600.0)
    (found,) = answers(run, RULE)
    assert "end after 2.0 instructions each" in found.summary
    assert found.evidence == ("1,024 warp instructions in 512 warps",)
    assert found.gain is None
    assert sightline.findings(run)[0].rule == RULE


def test_one_element_a_thread(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {EXECUTED: 512 * 12.0}, blocks=64), RULE)


def test_a_fill_of_few_instructions_stores(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {EXECUTED: 512 * 5.0, STORES: 512.0}, blocks=64), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {SM: 1.0}), RULE, "--section InstructionStats")
