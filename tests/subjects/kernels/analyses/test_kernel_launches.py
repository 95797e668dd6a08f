"""kernel_launches: the way from a launch call to its kernel."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import kernel, launch, opened


def test_launches_api_queue_and_depth(tmp_path: Path) -> None:
    """Three launches into a stream that is busy until 50; the second stream is idle."""
    run = opened(
        tmp_path,
        [
            launch(0, 4, 1),
            launch(10, 4, 2),
            launch(20, 4, 3),
            launch(60, 4, 4),
            launch(30, 4, 5),
            kernel("a", 6, 44, 1),
            kernel("b", 51, 10, 2),
            kernel("c", 62, 10, 3),
            kernel("d", 73, 10, 4),
            kernel("other", 33, 10, 5, stream=8),
        ],
    )
    assert rows(
        run,
        "kernel_launches",
        "name",
        "api",
        "api_ns",
        "queue_ns",
        "launch_to_start_ns",
        "duration_ns",
        "queue_depth",
    ) == [
        ("a", "cudaLaunchKernel", 4_000, 2_000, 6_000, 44_000, 0),
        ("b", "cudaLaunchKernel", 4_000, 37_000, 41_000, 10_000, 0),
        ("c", "cudaLaunchKernel", 4_000, 38_000, 42_000, 10_000, 1),
        ("other", "cudaLaunchKernel", 4_000, 0, 3_000, 10_000, 0),
        ("d", "cudaLaunchKernel", 4_000, 9_000, 13_000, 10_000, 1),
    ]


def test_kernel_that_starts_before_its_launch_was_never_queued(tmp_path: Path) -> None:
    """Two clocks that disagree: no depth below zero, no negative queue time."""
    run = opened(
        tmp_path, [launch(10, 4, 1), launch(20, 4, 2), kernel("a", 8, 3, 1), kernel("b", 20, 3, 2)]
    )
    assert rows(run, "kernel_launches", "launch_to_start_ns", "queue_ns", "queue_depth") == [
        (-2_000, 0, 0),
        (0, 0, 0),
    ]
