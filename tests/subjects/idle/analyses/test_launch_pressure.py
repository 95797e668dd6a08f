"""launch_pressure: whether a device's launches come faster than it works them off."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traces import kernel, launched, opened


def test_ten_kernels_of_10_us_launched_every_50(tmp_path: Path) -> None:
    """Nine gaps of 40 µs in a window of 460."""
    run = opened(tmp_path, [launched(50 * i, kernel("k", 50 * i + 10, 10)) for i in range(10)])
    (row,) = run.ask("launch_pressure").to_dicts()
    assert row == {
        "rank": 0,
        "device_id": 0,
        "launches": 10,
        "launch_calls": 10,
        "median_op_ns": 10_000,
        "median_interval_ns": 50_000,
        "empty_queue": 10,
        "empty_queue_pct": 100.0,
        "late_idle_ns": 360_000,
        "late_idle_pct": pytest.approx(100 * 360 / 460),
        "pace_idle_ns": 360_000,
        "launch_bound": True,
    }


@pytest.mark.parametrize(
    ("length", "pause", "bound"), [(45, 0, False), (10, 0, True), (10, 5_000, False)]
)
def test_when_a_device_is_bound_by_launches(
    tmp_path: Path, length: int, pause: int, bound: bool
) -> None:
    """Not where kernels are nearly as long as the interval, and not where most of the idle time is
    one pause of more than ten intervals.
    """
    at = [50 * i + (pause if i > 5 else 0) for i in range(10)]
    run = opened(tmp_path, [launched(t, kernel("k", t + 10, length)) for t in at])
    assert run.ask("launch_pressure").get_column("launch_bound").to_list() == [bound]


def test_moments_of_launches_say_nothing_of_their_pace(tmp_path: Path) -> None:
    """As in unitrace's timeline: the host may have done anything between two calls of no length."""
    told = [launched(50 * i, kernel("k", 50 * i + 10, 10), dur=0) for i in range(10)]
    run = opened(tmp_path, told)
    assert run.ask("launch_pressure").get_column("launch_bound").to_list() == [False]
