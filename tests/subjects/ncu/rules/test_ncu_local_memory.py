"""ncu-local-memory: spilled registers, and arrays indexed by a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-local-memory"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
HITS = "l1tex__t_sector_pipe_lsu_mem_{}_op_{}_hit_rate.pct"
# 400 of 1,000 sectors are local. The L1 misses 100 of those loads and 200 stores, and 600 others.
METRICS = {
    SECTORS.format("global", "ld"): 600.0,
    SECTORS.format("global", "st"): 0.0,
    SECTORS.format("local", "ld"): 200.0,
    SECTORS.format("local", "st"): 200.0,
    HITS.format("local", "ld"): 50.0,
    L1: 30.0,
    L2: 90.0,
    DRAM: 20.0,
    SM: 10.0,
    "launch__registers_per_thread": 32.0,
}


def test_two_of_five_sectors(tmp_path: Path) -> None:
    """A third of what reaches the L2, which binds the kernel: it is a third shorter then."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=3333,
        gain_ns=3333,
        evidence=["40.0 % of the sectors", "32 registers", "of local memory, most felt in the L2"],
        fix="-Xptxas -v",
        severity="warning",
        confidence="medium",
    )


def test_no_more_than_what_the_next_unit_leaves(tmp_path: Path) -> None:
    """Device memory is needed for 85 % of the time: at 90 % of its peak, that is 94.4 %."""
    assert_speaks(
        profiled(tmp_path, METRICS | {DRAM: 85.0}),
        RULE,
        cost_ns=556,
        gain_ns=556,
        evidence=["then device memory, at 85.0 %"],
        fix="registers",
    )


def test_what_nsight_compute_counted_as_spilled_is_named_so(tmp_path: Path) -> None:
    spilled = {"sass__inst_executed_register_spilling_mem_local": 100.0}
    assert_speaks(
        profiled(tmp_path, METRICS | spilled),
        RULE,
        cost_ns=3333,
        gain_ns=3333,
        evidence=["registers are spilled"],
        fix="registers",
    )


@pytest.mark.parametrize(
    "change",
    [
        {SECTORS.format("local", "ld"): 0.0, SECTORS.format("local", "st"): 0.0},
        {SECTORS.format("global", "ld"): 8_000.0},
    ],
    ids=["none", "under 5 %"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis_Tables")
