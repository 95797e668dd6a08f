"""ncu-short-blocks: a grid that is larger than the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from support.profiled import MEMORY, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-short-blocks"
WAVES = "launch__waves_per_multiprocessor"
METRICS = {SM: 20.0, MEMORY: 14.0, WAVES: 40.0}


def test_blocks_that_live_a_quarter_of_a_microsecond(tmp_path: Path) -> None:
    """10 µs in 40 waves; 80 % are left to the nearest limit."""
    run = profiled(tmp_path, METRICS, blocks=3200)
    assert_speaks(
        run,
        RULE,
        cost_ns=8000,
        gain_ns=8000,
        evidence=["3,200 blocks take 10.00 µs in 40.0 waves: each lives 250 ns"],
        fix="grid-stride",
        severity="warning",
        confidence="medium",
    )
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == RULE


@pytest.mark.parametrize(
    ("change", "time"),
    [({}, 100_000.0), ({WAVES: 3.0}, 1_000.0), ({MEMORY: 65.0}, 10_000.0)],
    ids=["2.5 µs each", "three waves", "a unit binds it"],
)
def test_silence(tmp_path: Path, change: dict[str, Any], time: float) -> None:
    assert_silent(profiled(tmp_path, METRICS | change, blocks=3200, time=time), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {SM: 20.0}, time=None), RULE, "--section LaunchStats")
