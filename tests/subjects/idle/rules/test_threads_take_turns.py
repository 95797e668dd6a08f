"""threads-take-turns: several threads launch, and a lock lets one of them work at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent
from support.traces import Event, kernel, launch, opened

RULE = "threads-take-turns"
ROUNDS, WORK_US = 60, 50


def _launch_by(tmp_path: Path, threads: int, *, locked: bool, call_us: int = 10) -> Run:
    """Each thread works for 50 µs and launches a kernel of 5 µs on its stream, again and again."""
    events: list[Event] = []
    for n in range(ROUNDS):
        for thread in range(threads):
            turn = n * threads + thread if locked else n
            at = turn * (WORK_US + call_us) + (0 if locked else 3 * thread)
            corr = 1 + n * threads + thread
            events.append(launch(at + WORK_US, call_us, corr, tid=100 + thread))
            done = at + WORK_US + call_us + 2
            events.append(kernel("apply", done, 5, corr, stream=20 + thread))
    return opened(tmp_path, events)


@pytest.mark.parametrize("threads", [4, 8])
def test_threads_under_a_lock(tmp_path: Path, threads: int) -> None:
    """All at once, the program takes one thread's share of it."""
    (found,) = answers(_launch_by(tmp_path, threads, locked=True), RULE)
    assert f"{threads} threads launch, and never two at once" in found.summary
    assert found.gain_pct == pytest.approx(100 * (1 - 1 / threads), abs=6)
    assert (found.gain_ns or 0) <= (found.cost_ns or 0)


def test_threads_that_meet(tmp_path: Path) -> None:
    assert_silent(_launch_by(tmp_path, 8, locked=False), RULE)


def test_two_threads_may_hand_over(tmp_path: Path) -> None:
    """As PyTorch's main thread and its autograd thread do."""
    assert_silent(_launch_by(tmp_path, 2, locked=True), RULE)


def test_threads_that_launch_seldom_meet_by_chance(tmp_path: Path) -> None:
    """Calls of 1 µs in 50: too few meetings are expected to say anything of their absence."""
    assert_silent(_launch_by(tmp_path, 3, locked=True, call_us=1), RULE)
