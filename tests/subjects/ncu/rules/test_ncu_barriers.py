"""ncu-barriers: waits at barriers, and for what is handed over between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import LATENCY, SM, STALL, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-barriers"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
THREADS = "sass__thread_inst_executed_true_per_opcode"
# 1,600 blocks of 8 warps: ten barriers each. A tenth of the threads take part in shared accesses.
BARRIERS = 1600 * 8 * 10
TREE = {
    OPCODES: (1.0, {"BAR.SYNC.DEFER_BLOCKING": BARRIERS, "LDS": 1000, "STS": 1000}),
    THREADS: (1.0, {"LDS": 3200, "STS": 3200}),
}
METRICS = {
    SM: 50.0,
    LATENCY: 10.0,
    STALL.format("barrier"): 2.0,
    STALL.format("short_scoreboard"): 1.5,
    STALL.format("mio_throttle"): 0.5,
}


def test_a_tree_with_a_barrier_a_level(tmp_path: Path) -> None:
    """20 % at barriers, and 20 % for the shared memory between them."""
    assert_speaks(
        profiled(tmp_path, METRICS | TREE),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["warps wait at barriers, of which each meets 10", "20.0 % for the shared memory"],
        fix="shuffles",
        severity="warning",
        confidence="medium",
    )


def test_barriers_alone(tmp_path: Path) -> None:
    """40 % of the time, of which no more than what is left to the SM's limit: 30 %."""
    assert_speaks(
        profiled(tmp_path, METRICS | {STALL.format("barrier"): 4.0, SM: 70.0}),
        RULE,
        cost_ns=3000,
        gain_ns=3000,
        evidence=["40.0 % of the time between two issues"],
        fix="balance the work",
    )


@pytest.mark.parametrize(
    "change",
    [
        {STALL.format("barrier"): 0.9, STALL.format("short_scoreboard"): 9.0},
        {THREADS: (1.0, {"LDS": 32_000, "STS": 32_000})},
        {OPCODES: (1.0, {"BAR.SYNC": BARRIERS // 5, "LDS": 1000, "STS": 1000})},
        {LATENCY: 0.0},
    ],
    ids=["hardly at barriers", "whole warps", "two barriers", "no issues"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | TREE | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WarpStateStats")
