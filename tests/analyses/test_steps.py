"""steps: where the time of each marked step went."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import copy, kernel, launch, opened, step


def test_steps_hold_the_device_time_that_falls_in_them(tmp_path: Path) -> None:
    """A kernel of the first step, [80, 130), still runs in the second."""
    run = opened(
        tmp_path,
        [
            step(1, 0, 100),
            step(2, 100, 100),
            launch(10, 5, 1),
            launch(110, 5, 2),
            kernel("a", 80, 50, 1),
            copy("Memcpy DtoH (Device -> Pinned)", 150, 10, 8, correlation=2),
        ],
    )
    assert rows(
        run,
        "steps",
        "step",
        "start_ns",
        "duration_ns",
        "compute_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "idle_ns",
        "launched_ops",
    ) == [
        ("ProfilerStep#1", 0, 100_000, 20_000, 0, 0, 80_000, 1),
        ("ProfilerStep#2", 100_000, 100_000, 30_000, 0, 10_000, 60_000, 1),
    ]
