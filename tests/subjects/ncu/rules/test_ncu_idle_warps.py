"""ncu-idle-warps: a grid of which most warps read nothing and write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.profiled import SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-idle-warps"
GLOBAL = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
LOADS, STORES = GLOBAL.format("ld"), GLOBAL.format("st")
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
EXECUTED = "smsp__inst_executed.sum"
# 10,000 blocks of 8 warps, of which one in ten loads or stores; the SM is at its limit with it.
METRICS = {SM: 85.0, LOADS: 4_000.0, STORES: 4_000.0, EXECUTED: 80_000 * 90.0}


def test_one_warp_of_ten_has_work(tmp_path: Path) -> None:
    run = profiled(tmp_path, METRICS, blocks=10_000, time=100_000.0)
    assert_speaks(
        run,
        RULE,
        cost_ns=90_000,
        gain_ns=90_000,
        evidence=["Of 80,000 warps (10,000 blocks of 256 threads) at most 8,000 read or write any"],
        fix="as many threads as there are elements",
        severity="warning",
        confidence="medium",
    )
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == RULE


@pytest.mark.parametrize(
    "change",
    [{SHARED: 80_000.0}, {LOADS: 40_000.0}, {EXECUTED: 80_000 * 5_000.0}, {LOADS: 0, STORES: 0}],
    ids=["shared memory", "half of them load", "a test of arithmetic", "nothing at all"],
)
def test_silence(tmp_path: Path, change: dict[str, float]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change, blocks=10_000, time=100_000.0), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(
        profiled(tmp_path, {SM: 20.0}, time=None), RULE, "MemoryWorkloadAnalysis_Tables"
    )
