"""Programs held to a rate: by a display or a timer, and not by what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import findings
from sightline.timeline.pace import find_pace
from support.traces import call, host, kernel, launched, opened

FRAMES, PERIOD_US = 60, 16_667  # 60 Hz


def frames(between: Any, period_us: int = PERIOD_US, busy_us: int = 900) -> list[Any]:
    """Frames of one kernel each; `between` gives what the host does from a moment on."""
    events: list[Any] = []
    for n in range(FRAMES):
        at = n * period_us + 37 * (n % 5)  # the scheduler's jitter
        events += [*launched(at + 50, kernel("draw", at + 70, busy_us)), *between(at)]
    return events


def show(at: int) -> list[Any]:
    return [
        call("cudaGraphicsMapResources", at + 10, 20),
        call("cudaGraphicsUnmapResources", at + 62, 20),
    ]


def sleep(at: int) -> list[Any]:
    return [host("cpu_op", "clock_nanosleep", at + 1_100, PERIOD_US - 1_300)]


def compute(at: int) -> list[Any]:
    return [host("cpu_op", "prepare", at + 1_100, PERIOD_US - 1_300)]


def test_a_display_loop_gains_nothing(tmp_path: Path) -> None:
    run = opened(tmp_path, frames(show))
    pace = find_pace(run)
    assert pace is not None
    assert pace.is_display
    assert pace.hz == pytest.approx(60, rel=0.01)
    found = [f for f in findings(run) if not f.abstained]
    assert found[0].rule == "held-to-rate"
    assert [f.rule for f in found if f.gain_ns] == []


def test_a_timer_is_seen_by_what_the_thread_sleeps(tmp_path: Path) -> None:
    pace = find_pace(opened(tmp_path, frames(sleep)))
    assert pace is not None
    assert not pace.is_display
    assert pace.asleep_ns > 0.9 * pace.idle_ns


@pytest.mark.parametrize(
    "events",
    [
        frames(compute),  # as even, but the host works
        frames(show, period_us=13_000),  # 76.9 Hz is not a display's rate
        frames(sleep, busy_us=15_000),  # the device is busy
        frames(show)[:20],  # a handful of frames
    ],
    ids=["computes", "odd rate", "busy", "few"],
)
def test_other_loops_are_not_held(tmp_path: Path, events: list[Any]) -> None:
    assert find_pace(opened(tmp_path, events)) is None
