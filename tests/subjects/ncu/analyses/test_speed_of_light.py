"""speed_of_light: what bounds a kernel, by its two throughputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import MEMORY, SM, profiled


@pytest.mark.parametrize(
    ("sm", "memory", "waves", "verdict"),
    [
        (85.0, 70.0, 4.0, "compute"),
        (70.0, 85.0, 4.0, "memory"),
        (70.0, 65.0, 4.0, "balanced"),
        (75.0, 64.0, 4.0, "compute"),
        (30.0, 50.0, 4.0, "latency"),
        (30.0, 50.0, 0.5, "small_grid"),
        (60.0, 20.0, 0.5, "compute"),
        (81.0, 80.0, 4.0, "compute"),
    ],
)
def test_verdicts(tmp_path: Path, sm: float, memory: float, waves: float, verdict: str) -> None:
    metrics = {SM: sm, MEMORY: memory, "launch__waves_per_multiprocessor": waves}
    run = profiled(tmp_path, metrics)
    assert rows(run, "speed_of_light", "sm_pct", "memory_pct", "verdict") == [(sm, memory, verdict)]


def test_nothing_measured(tmp_path: Path) -> None:
    assert rows(profiled(tmp_path, {}), "speed_of_light", "verdict") == [(None,)]
