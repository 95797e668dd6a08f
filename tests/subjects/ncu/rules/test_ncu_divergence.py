"""ncu-divergence: warps that run with few of their threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-divergence"
EXECUTED = "smsp__thread_inst_executed_per_inst_executed.ratio"
PREDICATED = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
METRICS = {SM: 50.0, EXECUTED: 24.0, PREDICATED: 8.0}


def test_8_of_32_threads(tmp_path: Path) -> None:
    """Three quarters of the lanes are idle, in a unit that is half in use."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=3750,
        gain_ns=3750,
        evidence=["24.0 threads active, 8.0 after predication"],
        fix="same path",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize("change", [{EXECUTED: 32.0, PREDICATED: 24.0}], ids=["24 threads"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section WarpStateStats")


def test_one_counter_and_no_throughput(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {EXECUTED: 16.0}),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["16.0"],
        fix="same path",
    )


def test_paths_one_after_the_other(tmp_path: Path) -> None:
    """Half of the threads, be the SM busy or not."""
    metrics = METRICS | {EXECUTED: 16.0}
    for memory, gain in ((10.0, 5000), (45.0, 5000)):
        run = profiled(tmp_path / str(memory), metrics | {MEMORY: memory})
        assert_speaks(run, RULE, cost_ns=gain, gain_ns=gain, evidence=["16.0"], fix="same path")
    # Memory has more to do than the SM: what diverges is worth what the SM is.
    run = profiled(tmp_path / "memory", metrics | {MEMORY: 60.0})
    assert_speaks(run, RULE, cost_ns=3750, gain_ns=3750, evidence=["16.0"], fix="same path")
