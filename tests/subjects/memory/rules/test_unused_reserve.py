"""Segments without a block in use, from a fifth of the reserve on."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import alloc, free, opened, segment, snapshot


def held(free: int) -> dict:
    return snapshot(
        [], [segment(0, (1000 - free, "active_allocated")), segment(5000, (free, "inactive"))]
    )


def test_a_fifth_is_unused(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, held(200)),
        "unused-reserve",
        cost_bytes=200,
        gain_bytes=None,  # without a history the next step may take it again
        evidence=["1.000 kB reserved, 800 B in use", "the largest of them: 1 × 200 B"],
        fix="record the history first",
    )


def test_just_below(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, held(199)), "unused-reserve")


def after_a_step(needed: int) -> dict:
    """1,000 bytes reserved, of which a step needed so many at once; 100 stay in use."""
    return snapshot(
        [alloc(0, 100, 1), alloc(5000, needed - 100, 2), *free(5000, needed - 100, 3)],
        [segment(0, (100, "active_allocated")), segment(5000, (900, "inactive"))],
    )


def test_what_the_peak_needed_is_not_unused(tmp_path: Path) -> None:
    """Of 900 bytes in segments that nothing uses the peak needed 600: the next step does again."""
    assert_finds(
        opened(tmp_path, after_a_step(700)),
        "unused-reserve",
        cost_bytes=300,
        gain_bytes=300,
        evidence=["1.000 kB reserved, 100 B in use, 700 B at the peak", "more than the peak"],
        fix="empty_cache()",
    )
    assert_silent(opened(tmp_path, after_a_step(850)), "unused-reserve")


def test_a_phase_before_the_history_may_come_again(tmp_path: Path) -> None:
    """700 of 750 bytes at the peak were there before it began: what took 1,000 was not recorded."""
    late = snapshot(
        [alloc(5000, 50, 1), *free(5000, 50, 2)],
        [segment(0, (700, "active_allocated")), segment(5000, (300, "inactive"))],
    )
    assert_finds(
        opened(tmp_path, late),
        "unused-reserve",
        cost_bytes=250,
        gain_bytes=None,
        evidence=["whether that phase recurs"],
        fix="record the history first",
    )
