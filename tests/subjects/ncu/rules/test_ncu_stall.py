"""ncu-stall: warps that wait for one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import ISSUE, LATENCY, SM, STALL, TIME, opened, profiled, with_code
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-stall"
METRICS = {LATENCY: 10.0, STALL.format("barrier"): 4.0, ISSUE: 0.3, SM: 30.0}


def test_four_of_ten_cycles_at_a_barrier(tmp_path: Path) -> None:
    """40 % of the time, with 70 % left to the limit."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["barrier: 4.0 of 10.0 cycles", "40.0 %"],
        fix="before the barrier",
        severity="warning",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "change",
    [
        {STALL.format("barrier"): 3.0},
        {ISSUE: 0.8},
        {STALL.format("barrier"): 0.0, STALL.format("not_selected"): 5.0},
    ],
    ids=["30 %", "busy schedulers", "ready warps"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WarpStateStats")


def test_without_issue_slots_it_is_not_judged(tmp_path: Path) -> None:
    metrics = {name: value for name, value in METRICS.items() if name != ISSUE}
    assert_abstains(profiled(tmp_path, metrics), RULE, "--section SchedulerStats")


def test_a_reason_that_is_not_known(tmp_path: Path) -> None:
    metrics = {LATENCY: 10.0, STALL.format("of_tomorrow"): 4.0, ISSUE: 0.3}
    assert_speaks(
        profiled(tmp_path, metrics),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["of_tomorrow: 4.0 of 10.0 cycles"],
        fix="Kernel Profiling Guide",
    )


@pytest.mark.parametrize(
    ("lines", "place"), [(True, "src/scale.cu:12 (90.9 %"), (False, "FADD at byte 16 (90.9 %")]
)
def test_where_it_waits(tmp_path: Path, lines: bool, place: str) -> None:
    """30 of 33 samples are at the second instruction, all of them for one reason."""
    measured = {LATENCY: 10.0, STALL.format("long_scoreboard"): 4.0, ISSUE: 0.3, TIME: 10_000.0}
    assert_speaks(
        opened(tmp_path, with_code(lines=lines, **measured)),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=[f"most at {place} of the samples)"],
        fix="coalesce the loads",
    )


def test_no_more_than_the_unused_issue_slots(tmp_path: Path) -> None:
    """A reason of 60 % of the cycles between issues, while half of the issue slots are in use."""
    assert_speaks(
        profiled(tmp_path, {LATENCY: 10.0, STALL.format("long_scoreboard"): 6.0, ISSUE: 0.5}),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["long_scoreboard: 6.0 of 10.0 cycles"],
        fix="coalesce the loads",
    )


@pytest.mark.parametrize(("sectors", "is_narrow"), [(1000, True), (4000, False)])
def test_loads_of_one_byte_a_thread(tmp_path: Path, sectors: float, is_narrow: bool) -> None:
    """A request of 32 threads for 32 bytes is one sector, and all of it is used."""
    loads = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
    metrics = {
        LATENCY: 10.0,
        STALL.format("long_scoreboard"): 8.0,
        ISSUE: 0.3,
        SM: 30.0,
        loads.format("requests"): 1000.0,
        loads.format("sectors"): sectors,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32.0,
    }
    (found,) = answers(profiled(tmp_path, metrics), RULE)
    assert ("a thread loads 1 byte at once" in found.summary) is is_narrow
    assert ("uchar4" in (found.fix or "")) is is_narrow


@pytest.mark.parametrize(
    ("loads", "waves", "speaks"), [(2, 4.7, True), (40, 4.7, False), (2, 1.0, False)]
)
def test_a_thread_that_loads_two_values_and_ends(
    tmp_path: Path, loads: int, waves: float, speaks: bool
) -> None:
    """4,096 blocks of eight warps: each starts, waits for its two loads, and ends."""
    opcodes = {"LDG.E": 4096 * 8 * loads, "FADD": 4096 * 80}
    counted = {
        "sass__inst_executed_per_opcode_with_modifier_all": (sum(opcodes.values()), opcodes),
        "launch__waves_per_multiprocessor": waves,
    }
    waits = {LATENCY: 10.0, STALL.format("long_scoreboard"): 4.0, ISSUE: 0.3, SM: 30.0}
    (found,) = answers(profiled(tmp_path, waits | counted, blocks=4096), RULE)
    assert ("a thread loads 2 values and ends" in found.summary) is speaks
    assert found.fix.startswith("give each thread several items") is speaks
    assert "coalesce the loads" in found.fix
