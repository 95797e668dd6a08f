"""ncu-wavefronts: an L1 that takes many turns for each request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import L1, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-wavefronts"
STAGE = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
METRICS = {SM: 10.0, L1: 100.0, STAGE: 100.0, REQUESTS: 5.0}


def test_twenty_for_each(tmp_path: Path) -> None:
    """Four would do for 16 bytes a thread: a fifth of the time is left."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=8000,
        gain_ns=8000,
        evidence=["busy for 100.0 % of the time, with 20 wavefronts for each request"],
        fix="pad or swizzle",
        severity="warning",
    )


@pytest.mark.parametrize(
    "change",
    [{REQUESTS: 25.0}, {STAGE: 59.9, L1: 59.9}, {SM: 100.1}],
    ids=["wide accesses", "not busy", "another unit is busier"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")
