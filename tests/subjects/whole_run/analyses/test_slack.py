"""slack: how much longer an operation may take before the run does."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import kernel, launched, opened

FIELDS = "name", "instances", "total_ns", "critical", "median_slack_ns", "least_slack_ns"


def test_a_kernel_beside_a_longer_one(tmp_path: Path) -> None:
    """[30, 80) on a stream of its own, beside [10, 210): it may end 130 µs later."""
    run = opened(
        tmp_path,
        [launched(0, kernel("long", 10, 200)), launched(20, kernel("short", 30, 50, stream=8))],
    )
    assert rows(run, "slack", *FIELDS) == [
        ("long", 1, 200_000, 1, 0, 0),
        ("short", 1, 50_000, 0, 130_000, 130_000),
    ]
    assert rows(run, "slack", "critical_pct") == [(100.0,), (0.0,)]
