"""ncu-no-work: warps that end at once."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.profiled import SM, TIME, opened, profiled
from support.rules import answers, assert_abstains, assert_silent
from synth_ncu import Kernel, report

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


def test_a_marker_of_one_warp_is_no_kernel_that_was_meant(tmp_path: Path) -> None:
    run = profiled(tmp_path, {EXECUTED: 3.0}, blocks=1, threads=1, time=1_600.0)
    assert_silent(run, RULE)


def test_less_than_an_instruction_a_warp_is_a_wrong_figure(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, {EXECUTED: 400.0}, blocks=64), RULE)


def test_a_short_launch_with_nothing_to_do_beside_those_that_work(tmp_path: Path) -> None:
    kernels = [
        Kernel(grid=(64, 1, 1), block=(256, 1, 1), metrics={TIME: time, EXECUTED: executed})
        for time, executed in ((2_000.0, 1024.0), (90_000.0, 512 * 200.0))
    ]
    assert_silent(opened(tmp_path, report(kernels)), RULE)
