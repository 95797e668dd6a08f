"""occupancy: how many warps fit an SM, and what limits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import FULL_SM, profiled

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"


def test_two_blocks_for_their_registers(tmp_path: Path) -> None:
    """A warp with 128 registers a thread takes 4,096 of a scheduler's 16,384: 16 warps of 48."""
    metrics = FULL_SM | {"launch__registers_per_thread": 128.0, ACHIEVED: 30.0}
    run = profiled(tmp_path, metrics)
    assert rows(run, "occupancy", "theoretical_pct", "achieved_pct", "limiter") == [
        (pytest.approx(100 / 3), 30.0, "registers")
    ]
    assert rows(run, "occupancy", "active_warps", "max_warps", "active_blocks") == [(16, 48, 2)]
    limits = [f"limit_{n}" for n in ("warps", "blocks", "registers", "shared_mem", "barriers")]
    assert rows(run, "occupancy", *limits) == [(6, 16, 2, 100, None)]


def test_without_registers(tmp_path: Path) -> None:
    run = profiled(tmp_path, {ACHIEVED: 30.0})
    assert rows(run, "occupancy", "theoretical_pct", "achieved_pct") == [(None, 30.0)]
