"""ncu-scalar-loads: device memory has room, and warps wait for loads of four bytes a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L2, LATENCY, MEMORY, SM, STALL, TIME, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-scalar-loads"
_OF_LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
REQUESTS, SECTORS = _OF_LOADS.format("requests"), _OF_LOADS.format("sectors")
WAIT = STALL.format("long_scoreboard")
METRICS: dict[str, Any] = {
    DRAM: 64.0, MEMORY: 64.0, SM: 20.0, TIME: 1_000_000.0, REQUESTS: 1000.0, SECTORS: 4000.0,
    WAIT: 40.0, LATENCY: 50.0,
}  # fmt: skip


def test_memory_at_64_percent_and_words(tmp_path: Path) -> None:
    """Up to 80 %, where the memory is at its limit, a fifth of the time can go."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=200_000,
        gain_ns=200_000,
        evidence=["64.0 % of its peak", "80.0 % of a warp's time", "4.0 sectors a request"],
        fix="16 bytes a thread",
    )


def test_the_note_on_the_busiest_unit_is_taken_in(tmp_path: Path) -> None:
    run = profiled(tmp_path, METRICS)
    assert [f.rule for f in answers(run, "ncu-busiest-unit")] == ["ncu-busiest-unit"]
    assert RULE in [f.rule for f in run.findings()]
    assert "ncu-busiest-unit" not in [f.rule for f in run.findings()]


@pytest.mark.parametrize(
    "change",
    [{DRAM: 80.0}, {DRAM: 59.0}, {L2: 70.0}, {SECTORS: 16_000.0}, {SECTORS: 2_000.0}, {WAIT: 20.0}],
    ids=["at its limit", "latency bound", "the L2 is busier", "wide", "two bytes", "waits less"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WarpStateStats")
