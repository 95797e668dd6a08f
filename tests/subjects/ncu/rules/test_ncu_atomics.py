"""ncu-atomics: atomic operations that wait for each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, LATENCY, MEMORY, SM, STALL, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-atomics"
SLICES = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
UNITS = {SM: 1.0, MEMORY: 2.0, L1: 1.0, L2: 2.0, DRAM: 2.0}
ONE_SLICE = {SLICES.format("max"): 80.0, SLICES.format("avg"): 1.0}
COUNTED = {OPCODES: (1000.0, {"REDG.E.ADD.STRONG.GPU": 900, "REDUX.SUM": 50, "LDG.E": 50})}


def test_one_slice_of_the_l2(tmp_path: Path) -> None:
    """Busy for 80 % of the time; then memory, at 2 %: an empty kernel takes longer, 2 of 10 µs."""
    assert_speaks(
        profiled(tmp_path, UNITS | ONE_SLICE | COUNTED),
        RULE,
        cost_ns=8000,
        gain_ns=8000,
        evidence=["900 warp-wide atomic operations", "one slice of the L2 busy for 80.0 %"],
        fix="one atomic operation a block",
        severity="warning",
        confidence="medium",
    )


WHOLE_SLICE = "lts__throughput.max.pct_of_peak_sustained_elapsed"


@pytest.mark.parametrize(
    ("atomic", "whole", "speaks"), [(46.0, 72.0, True), (30.0, 72.0, False), (46.0, 55.0, False)]
)
def test_a_slice_that_is_full_of_atomics(
    tmp_path: Path, atomic: float, whole: float, speaks: bool
) -> None:
    """Its atomic unit is half of what it does, or more."""
    slices = {SLICES.format("max"): atomic, SLICES.format("avg"): 2.9, WHOLE_SLICE: whole}
    found = answers(profiled(tmp_path, UNITS | slices | COUNTED), RULE)
    assert bool(found) is speaks
    assert all("one slice of the L2 busy for 72.0 %" in f.summary for f in found)


def test_shared_memory(tmp_path: Path) -> None:
    """72 of the L1's 90 %: 18 % are left of it, and the SM needs 30 %."""
    counted = {OPCODES: (1000.0, {"ATOMS.ADD": 600, "LDG.E": 400})}
    assert_speaks(
        profiled(tmp_path, {SM: 30.0, MEMORY: 70.0, L1: 72.0, SHARED: 72.0} | counted),
        RULE,
        cost_ns=5833,
        gain_ns=5833,
        evidence=["600 warp-wide atomic operations keep shared memory busy for 72.0 %"],
        fix="one atomic operation a block",
    )


TEX = "lts__t_requests_srcunit_tex{}.sum"
QUEUED = {
    TEX.format(""): 1000.0,
    TEX.format("_op_red"): 700.0,
    TEX.format("_op_atom_dot_cas"): 100.0,
    LATENCY: 100.0,
    STALL.format("lg_throttle"): 50.0,
    STALL.format("long_scoreboard"): 20.0,
}


def test_requests_to_the_l2_that_are_atomics(tmp_path: Path) -> None:
    """No unit of the atomics was counted, and no line: 800 of 1,000 requests, 70 of 100 cycles."""
    assert_speaks(
        profiled(tmp_path, UNITS | COUNTED | QUEUED),
        RULE,
        cost_ns=7000,
        gain_ns=7000,
        evidence=["80.0 % of all requests to the L2", "wait for global memory 70.0 % of the time"],
        fix="one atomic operation a block",
    )


@pytest.mark.parametrize(
    "change",
    [
        {TEX.format("_op_red"): 300.0},
        {STALL.format("lg_throttle"): 20.0},
        {SM: 70.0},
        {OPCODES: (1000.0, {"LDG.E": 500})},
    ],
    ids=["few requests", "other waits", "a busy unit", "no atomics"],
)
def test_requests_that_do_not_hold_the_kernel(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, UNITS | COUNTED | QUEUED | change), RULE)


@pytest.mark.parametrize(
    "change",
    [
        {SLICES.format("max"): 59.9},
        {DRAM: 85.0, MEMORY: 85.0},
        {OPCODES: (1000.0, {"REDUX.SUM": 500, "LDG.E": 500})},
    ],
    ids=["less than 60 %", "another unit is busier", "no atomics"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, UNITS | ONE_SLICE | COUNTED | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--set full")


def test_it_takes_in_its_symptoms(tmp_path: Path) -> None:
    waiting = {
        "smsp__issue_active.avg.per_cycle_active": 0.001,
        "launch__waves_per_multiprocessor": 4.0,
    }
    run = profiled(tmp_path, UNITS | ONE_SLICE | COUNTED | waiting)
    assert answers(run, "ncu-issue-slots")
    said = [f for f in run.findings() if not f.abstained]  # type: ignore[attr-defined]
    assert [f.rule for f in said] == [RULE]
    assert said[0].evidence[-1] == "also visible as: low issue slot utilization, latency bound"
