"""kernels: statistics of durations by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.traces import kernel, opened


def test_kernels_statistics(tmp_path: Path) -> None:
    """Durations 10, 20, 60 of one name and 10 of another, in a window of 200."""
    run = opened(
        tmp_path,
        [kernel("a", 0, 10), kernel("a", 20, 20), kernel("a", 50, 60), kernel("b", 190, 10)],
    )
    assert rows(
        run,
        "kernels",
        "name",
        "instances",
        "total_ns",
        "mean_ns",
        "median_ns",
        "min_ns",
        "max_ns",
        "window_pct",
        "kernel_pct",
    ) == [
        ("a", 3, 90_000, 30_000.0, 20_000.0, 10_000, 60_000, pytest.approx(45), pytest.approx(90)),
        ("b", 1, 10_000, 10_000.0, 10_000.0, 10_000, 10_000, pytest.approx(5), pytest.approx(10)),
    ]
    a, b = rows(run, "kernels", "stddev_ns")
    assert a[0] == pytest.approx(26457.513)  # sqrt((20² + 10² + 30²) / 2) µs
    assert b[0] is None
