"""ncu-l1-limit: a kernel that reads the same from the L1 again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-l1-limit"
HITS = "l1tex__t_sector_hit_rate.pct"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
METRICS = {HITS: 75.0, L1: 90.0, L2: 20.0, DRAM: 10.0, SM: 40.0, REQUESTS: 100.0, SHARED: 50.0}


def test_until_the_next_unit_limits(tmp_path: Path) -> None:
    """Three quarters of 90 % would go, but the SM is at 40 %: 40 / 90 of the time are left."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=5556,
        gain_ns=5556,
        evidence=["90.0 % of its peak", "75.0 % of the accesses hit it", "then the SM"],
        fix="register tiles",
        severity="warning",
        confidence="medium",
    )


def test_what_is_read_once_must_be_read(tmp_path: Path) -> None:
    """Half of it is: with the other half gone the L1 has half as much to do."""
    assert_speaks(
        profiled(tmp_path, METRICS | {HITS: 50.0}),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["50.0 % of the accesses hit it"],
        fix="register tiles",
    )


@pytest.mark.parametrize(
    "change",
    [{L1: 79.9}, {HITS: 49.9}, {SHARED: 101.0}],
    ids=["not at its limit", "read once", "shared memory"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis")


OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
ISSUE_PCT = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"


def test_no_reuse_in_registers(tmp_path: Path) -> None:
    """Two loads for each multiply-add: a quarter of them is left, and so is of all else.

    Of 100 instructions 20 are multiply-adds: 20 + 80 / 4 = 40 are left of 60 %, that is 24 %; of
    the L1 22.5 %. Both are of the 90 % that the L1 is busy today.
    """
    counted = {OPCODES: (100.0, {"LDG.E": 40, "FFMA": 20, "IADD3": 40}), ISSUE_PCT: 60.0}
    assert_speaks(
        profiled(tmp_path / "global", METRICS | counted),
        RULE,
        cost_ns=7333,
        gain_ns=7333,
        evidence=["2.0 loads for each multiply-add", "then instruction issue, at 24.0 %"],
        fix="register tiles",
    )
    of_shared = {OPCODES: (100.0, {"LDS": 40, "FFMA": 20, "IADD3": 40}), SHARED: 200.0}
    run = profiled(tmp_path / "shared", METRICS | counted | of_shared)
    assert_speaks(run, RULE, cost_ns=7333, gain_ns=7333, evidence=["shared memory"], fix="register")


def test_shared_memory_with_reuse(tmp_path: Path) -> None:
    counted = {OPCODES: (100.0, {"LDS.128": 9, "FFMA": 20}), SHARED: 200.0}
    assert_silent(profiled(tmp_path, METRICS | counted), RULE)


def test_without_counts_by_operation(tmp_path: Path) -> None:
    """100 requests, 50 multiply-adds of 250 instructions: 20 % stay, and a quarter of the rest."""
    counted = {
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1600.0,
        "smsp__inst_executed.sum": 250.0,
        ISSUE_PCT: 60.0,
    }
    evidence = ["2.0 loads for each multiply-add", "then instruction issue, at 24.0 %"]
    run = profiled(tmp_path, METRICS | counted)
    assert_speaks(run, RULE, cost_ns=7333, gain_ns=7333, evidence=evidence, fix="register tiles")
