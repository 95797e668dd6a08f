"""steps: where the time of each marked step went."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import copy, kernel, launch, opened, step


def test_steps_hold_the_device_time_that_falls_in_them(tmp_path: Path) -> None:
    """A kernel of the first step, [80, 130), ends after its mark: so does the step."""
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
        ("ProfilerStep#1", 0, 130_000, 50_000, 0, 0, 80_000, 1),
        ("ProfilerStep#2", 130_000, 70_000, 0, 0, 10_000, 60_000, 1),
    ]


def test_each_device_has_the_steps_of_its_own_process(tmp_path: Path) -> None:
    """A file of two processes: the second one's steps begin 500 µs later, on GPU 1."""
    events = []
    for device, (pid, late) in enumerate(((100, 0), (200, 500))):
        for number in range(3):
            begin = 1000 * number + late
            place = {"pid": pid, "tid": pid}
            corr = 10 * number + device + 1
            events += [
                {**step(number, begin, 900), **place},
                {**launch(begin + 50, 5, corr), **place},
                kernel("k", begin + 100, 300 + 100 * device, corr, device=device),
            ]
    assert rows(opened(tmp_path, events), "steps", "device_id", "start_ns", "compute_ns") == [
        (0, 0, 300_000),
        (0, 900_000, 300_000),
        (0, 1_900_000, 300_000),
        (1, 500_000, 400_000),
        (1, 1_400_000, 400_000),
        (1, 2_400_000, 400_000),
    ]
