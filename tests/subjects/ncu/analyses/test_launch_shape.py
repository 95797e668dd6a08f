"""launch_shape: how grid and blocks fit the device, an A10G with 80 SMs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import FULL_SM, profiled

FIELDS = "blocks", "blocks_per_sm", "waves", "tail_blocks", "tail_idle_pct", "idle_sms_pct"


@pytest.mark.parametrize(
    ("blocks", "waves", "tail", "empty"),
    [(528, 1.1, 48, 45.0), (480, 1.0, 0, 0.0), (240, 0.5, 240, 50.0)],
)
def test_waves_of_480_blocks(
    tmp_path: Path, blocks: int, waves: float, tail: int, empty: float
) -> None:
    """Six blocks of 256 threads fit an SM. Of two waves' 960 places 528 blocks leave 432 empty."""
    run = profiled(tmp_path, FULL_SM, blocks=blocks)
    assert rows(run, "launch_shape", *FIELDS) == [(blocks, 6, waves, tail, empty, 0.0)]


def test_few_blocks_with_a_partly_empty_warp(tmp_path: Path) -> None:
    """20 of 80 SMs, 48 of 64 lanes; what fits is not known without the registers."""
    run = profiled(tmp_path, {"launch__waves_per_multiprocessor": 0.04}, blocks=20, threads=48)
    assert rows(run, "launch_shape", *FIELDS) == [(20, None, None, None, None, 75.0)]
    fields = "threads", "sm_count", "idle_lanes_pct", "reported_waves"
    assert rows(run, "launch_shape", *fields) == [(48, 80, 25.0, 0.04)]
