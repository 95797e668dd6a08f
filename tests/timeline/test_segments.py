"""Segments: what repeats and what happens once, on timelines whose parts are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.timeline.segments import list_segments, select_repeating
from support.traces import kernel, launched, opened

# A step: two kernels of 100 µs, launched by the host in time.
STEP_US = 250


def step(at: int) -> list[Any]:
    return [
        *launched(at - 40, kernel("a", at, 100)),
        *launched(at - 20, kernel("b", at + 120, 100)),
    ]


def loop(since: int, steps: int = 10) -> list[Any]:
    return [e for n in range(steps) for e in step(since + n * STEP_US)]


def lengths(run: Any) -> list[tuple[str, int]]:
    rows = list_segments(run).to_dicts()
    return [(row["segment"], row["end_ns"] - row["start_ns"]) for row in rows]


def test_a_loop_alone_is_no_segment(tmp_path: Path) -> None:
    run = opened(tmp_path, loop(0))
    assert lengths(run) == []
    assert select_repeating(run) is run


def test_an_upload_before_the_loop_is_start_up(tmp_path: Path) -> None:
    upload = launched(-20, kernel("Memcpy HtoD (Pageable -> Device)", 0, 3_000, cat="gpu_memcpy"))
    run = opened(tmp_path, [*upload, *loop(4_000)])
    parts = lengths(run)
    assert [name for name, _ in parts] == ["start-up", "repeating"]
    assert sum(ns for _, ns in parts) == (4_000 + 9 * STEP_US + 220) * 1_000
    # The first step is not known to be like the others: what was before it may reach into it.
    assert parts[0][1] == (4_000 + STEP_US) * 1_000
    assert select_repeating(run).ask("breakdown").item(0, "window_ns") == parts[1][1]


def test_other_kernels_around_the_loop_do_not_hide_it(tmp_path: Path) -> None:
    """Thirty kernels that come once: less than nine in ten operations repeat, but most do."""
    once = [e for n in range(15) for e in launched(n * 90, kernel(f"init{n}", n * 90 + 20, 5))]
    done = [
        e for n in range(15) for e in launched(9_000 + n * 90, kernel(f"end{n}", 9_020 + n * 90, 5))
    ]
    run = opened(tmp_path, [*once, *loop(3_000, 20), *done])
    assert [name for name, _ in lengths(run)] == ["start-up", "repeating", "tail"]


def test_another_phase_that_computes_is_no_start_up(tmp_path: Path) -> None:
    phase = launched(-20, kernel("solve", 0, 3_000))
    assert lengths(opened(tmp_path, [*phase, *loop(3_050)])) == []


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_comes_three_times_is_no_loop_yet(tmp_path: Path, steps: int) -> None:
    upload = launched(-20, kernel("Memcpy HtoD (Pageable -> Device)", 0, 3_000, cat="gpu_memcpy"))
    assert lengths(opened(tmp_path, [*upload, *loop(4_000, steps)])) == []


def test_steps_whose_work_shrinks_are_all_usual(tmp_path: Path) -> None:
    """Gaussian elimination: each step has less to do; the long ones are not warm-up."""
    events, at = [], 0
    for n in range(40):
        length = 400 - 9 * n
        events += launched(at - 20, kernel("Fan1", at, 5))
        events += launched(at - 15, kernel("Fan2", at + 6, length))
        at += length + 10
    assert lengths(opened(tmp_path, events)) == []
