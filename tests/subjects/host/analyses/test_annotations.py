"""annotations: device time of what was launched in a range."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import host, kernel, launch, opened


def test_annotations_get_what_was_launched_in_them(tmp_path: Path) -> None:
    """forward [0, 50) holds attention [10, 30); kernels of attention overlap on two streams."""
    run = opened(
        tmp_path,
        [
            host("user_annotation", "forward", 0, 50),
            host("user_annotation", "attention", 10, 20),
            launch(12, 2, 1),
            launch(16, 2, 2),
            launch(40, 2, 3),
            launch(60, 2, 4),
            kernel("a", 100, 20, 1),
            kernel("b", 110, 20, 2, stream=8),
            kernel("c", 150, 5, 3),
            kernel("d", 200, 5, 4),
        ],
    )
    assert rows(
        run,
        "annotations",
        "path",
        "depth",
        "instances",
        "host_ns",
        "device_ops",
        "device_ns",
        "device_busy_ns",
        "projected_ns",
    ) == [
        ("forward", 0, 1, 50_000, 3, 45_000, 35_000, 55_000),
        ("forward / attention", 1, 1, 20_000, 2, 40_000, 30_000, 30_000),
    ]


def test_a_range_that_begins_before_its_step_has_its_work(tmp_path: Path) -> None:
    """Its spans overlap with the step's: none holds the other (PyTorch #174555)."""
    events = []
    for step in range(3):
        at = 1000 * step
        events += [
            host("user_annotation", f"ProfilerStep#{step}", at + 5, 900),
            host("user_annotation", "fwd", at + 3, 400),
            *(launch(at + 10 + 200 * n, 8, 10 * step + n) for n in range(4)),
            *(kernel("k", at + 100 + 200 * n, 50, 10 * step + n) for n in range(4)),
        ]
    run = opened(tmp_path, events)
    found = rows(run, "annotations", "name", "device_ops", "device_ns")
    assert {name: rest for name, *rest in found} == {
        "fwd": [6, 300_000],
        "ProfilerStep#*": [12, 600_000],
    }
