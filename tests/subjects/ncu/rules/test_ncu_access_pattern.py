"""ncu-access-pattern: loads and stores that use part of the sectors they move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-access-pattern"
USED = "smsp__sass_average_data_bytes_per_sector_mem_{}_op_{}.ratio"
LOADS = USED.format("global", "ld")
METRICS = {
    LOADS: 8.0,
    USED.format("local", "ld"): 0.0,
    "l1tex__t_sector_hit_rate.pct": 50.0,
    "lts__t_sector_hit_rate.pct": 50.0,
    L1: 20.0,
    L2: 90.0,
    DRAM: 80.0,
}


def test_8_of_32_bytes(tmp_path: Path) -> None:
    """75 % of the L1, of half of the L2 at 90 %, of a quarter of device memory at 80 %.

    The L2 binds the kernel; then device memory, of which 65 % are left: 65 / 90 of the time.
    """
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=2778,
        gain_ns=2778,
        evidence=["Global loads use 8.0 of the 32 bytes", "L2"],
        fix="neighboring addresses",
        severity="warning",
        confidence="medium",
    )


SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"


@pytest.mark.parametrize(
    "change",
    [
        {LOADS: 25.7},
        {LOADS: 0.0},
        {LOADS: 0.0, USED.format("local", "st"): 8.0},
        {"memory_l2_theoretical_sectors_global_ideal": 10.0},
        {SECTORS.format("global", "ld"): 1.0, SECTORS.format("global", "st"): 999.0},
    ],
    ids=[
        "4 of 5 bytes",
        "no loads",
        "local memory, which has a rule",
        "counted, which has a rule",
        "one of a thousand sectors",
    ],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis_Tables")


def test_without_throughputs_the_level_is_not_known(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {USED.format("global", "st"): 8.0}),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["Global stores use 8.0 of the 32 bytes"],
        fix="neighboring addresses",
    )


PART = "lts__{}.avg.pct_of_peak_sustained_elapsed"
INPUT, OUTPUT, MOVED, ATOMICS = (
    PART.format(part)
    for part in (
        "xbar2lts_cycles_active",
        "lts2xbar_cycles_active",
        "t_sectors",
        "d_atomic_input_cycles_active",
    )
)
BREAKDOWN = {INPUT: 88.0, OUTPUT: 0.1, MOVED: 33.0, ATOMICS: 0.0, L2: 88.0, L1: 77.0, DRAM: 28.0}


def test_stores_of_parts_of_sectors_fill_the_input_of_the_l2(tmp_path: Path) -> None:
    """Whole sectors leave the sectors' rate, 33 of 88; the L1 sends as many requests fewer."""
    assert_speaks(
        profiled(tmp_path, BREAKDOWN),
        RULE,
        cost_ns=6250,
        gain_ns=6250,
        evidence=["input from the SMs is busy 88.0 %", "sectors 33.0 %", "part of a sector"],
        fix="structures of arrays",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "change",
    [
        {MOVED: 44.1},
        {INPUT: 59.0, MOVED: 20.0, L2: 59.0},
        {OUTPUT: 45.0},
        {ATOMICS: 9.0},
        {INPUT: 70.0},
    ],
    ids=["whole sectors", "not the limit", "loads", "atomics", "another part of the L2"],
)
def test_an_input_that_tells_nothing_of_stores(tmp_path: Path, change: dict[str, float]) -> None:
    """The bytes per sector are then what has to be recorded."""
    run = profiled(tmp_path, BREAKDOWN | change)
    assert_abstains(run, RULE, "--section MemoryWorkloadAnalysis_Tables")


@pytest.mark.parametrize(
    "change",
    [{USED.format("global", "st"): 32.0}, {"memory_l2_theoretical_sectors_global_ideal": 9.0}],
    ids=["bytes per sector", "ideal sectors"],
)
def test_what_was_counted_goes_first(tmp_path: Path, change: dict[str, float]) -> None:
    assert_silent(profiled(tmp_path, {LOADS: 32.0} | BREAKDOWN | change), RULE)


CHART = {
    "lts__t_sectors_srcunit_tex_op_write.sum": 196_544.0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 6_144.0,
}


def test_a_memory_chart_alone_shows_a_sector_for_each_thread(tmp_path: Path) -> None:
    """Twelve ints a thread, one after the other: 32 sectors a request, of which 16 would do."""
    assert_speaks(
        profiled(tmp_path, CHART),
        RULE,
        cost_ns=4998,
        gain_ns=4998,
        evidence=["Global stores move 32.0 sectors a request, where 16"],
        fix="neighboring addresses",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"lts__t_sectors_srcunit_tex_op_write.sum": 16 * 6_144.0},
        {"l1tex__t_requests_pipe_lsu_mem_local_op_st.sum": 5_000.0},
        {"l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": 5_000.0},
    ],
    ids=["vector stores", "spills beside them", "atomics beside them"],
)
def test_a_memory_chart_that_tells_nothing(tmp_path: Path, change: dict[str, float]) -> None:
    assert_abstains(profiled(tmp_path, CHART | change), RULE, "MemoryWorkloadAnalysis_Tables")
