"""ncu-host-memory: misses of the L2 that go to the host or to another device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-host-memory"
MISSES = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"
BUSY = "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed"
METRICS = {MISSES.format("sysmem"): 75.0, MISSES.format("device"): 25.0, MEMORY: 40.0, BUSY: 50.0}


def test_three_of_four_misses(tmp_path: Path) -> None:
    """75 % of what the memory system, at 40 % of its peak, is worth."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=3000,
        gain_ns=3000,
        evidence=["75.0 % of the misses of the L2 go to host memory"],
        fix="prefetch managed memory",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [
        {MISSES.format("sysmem"): 40.0, MISSES.format("device"): 60.0},
        {BUSY: 49.9},
        {MISSES.format("sysmem"): 0.0, MISSES.format("device"): 0.0},
    ],
    ids=["40 %", "an L2 that is hardly used", "no misses"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis_Chart")


def test_memory_of_a_peer_without_throughputs(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {MISSES.format("peer"): 41.0, MISSES.format("device"): 59.0}),
        RULE,
        cost_ns=4100,
        gain_ns=4100,
        evidence=["41.0 % of the misses", "memory of another GPU"],
        fix="prefetch",
    )
