"""ncu-host-memory: misses of the L2 that go to the host or to another device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-host-memory"
MISSES = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"
# In 10 µs: 3,000 sectors from the host are 9.6 GB/s, 1.6 % of the A10G's 600 GB/s.
METRICS = {MISSES.format("sysmem"): 3000.0, MISSES.format("device"): 1000.0, MEMORY: 40.0, SM: 10.0}


def test_three_of_four_misses(tmp_path: Path) -> None:
    """With the data on the device, the kernel is as long as the memory system needs now."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=6000,
        gain_ns=6000,
        evidence=["75.0 % of the misses of the L2 go to host memory", "9.600 GB/s"],
        fix="prefetch managed memory",
        severity="warning",
        confidence="medium",
    )


def test_where_memory_waits_a_tenth_is_enough(tmp_path: Path) -> None:
    few = {MISSES.format("sysmem"): 3000.0, MISSES.format("device"): 20_000.0}
    run = profiled(tmp_path, METRICS | few)
    assert_speaks(run, RULE, cost_ns=6000, gain_ns=6000, evidence=["13.0 %"], fix="prefetch")
    assert_silent(profiled(tmp_path / "busy", METRICS | few | {MEMORY: 60.0}), RULE)


@pytest.mark.parametrize(
    "change",
    [
        {MISSES.format("sysmem"): 100.0, MISSES.format("device"): 900.0},
        {MISSES.format("sysmem"): 300.0, MISSES.format("device"): 0.0},
        {MISSES.format("sysmem"): 0.0, MISSES.format("device"): 0.0},
    ],
    ids=["10 %", "0.96 GB/s", "no misses"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis_Chart")


def test_memory_of_a_peer_without_a_duration(tmp_path: Path) -> None:
    """Then nobody knows how fast the link was: its share of the misses is all that there is."""
    misses = {MISSES.format("peer"): 41.0, MISSES.format("device"): 59.0}
    (found,) = answers(profiled(tmp_path, misses, time=None), RULE)
    assert (found.where["subject"], found.where["estimate_pct"]) == ("memory of another GPU", 41.0)


def test_what_fills_the_l2_where_misses_were_not_counted(tmp_path: Path) -> None:
    """Host memory at 0.1 % of what the L2 can take: 7 % of the time is what the SM needs."""
    fill = "lts__d_sectors_fill_{}.avg.pct_of_peak_sustained_elapsed"
    lit = {SM: 7.0, MEMORY: 7.0, fill.format("sysmem"): 0.1, fill.format("device"): 0.001}
    run = profiled(tmp_path, lit)
    assert_speaks(
        run,
        RULE,
        cost_ns=8000,
        gain_ns=8000,
        evidence=["99.0 % of what fills the L2 comes from host memory"],
        fix="copy the data to the device once",
    )
    few = {fill.format("sysmem"): 0.01}
    assert_silent(profiled(tmp_path / "few", lit | few), RULE)
    # Where nothing else is at work, as behind atomics over the link, less is enough.
    idle = {SM: 1.0, MEMORY: 1.0}
    (found,) = answers(profiled(tmp_path / "idle", lit | few | idle), RULE)
    assert found.where["estimate_pct"] == 80.0
    mixed = {fill.format("device"): 0.002}
    assert_silent(profiled(tmp_path / "mixed", lit | few | idle | mixed), RULE)
    assert_silent(profiled(tmp_path / "busy", lit | {SM: 70.0}), RULE)
