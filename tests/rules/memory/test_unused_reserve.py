"""Segments without a block in use, from a fifth of the reserve on."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import opened, segment, snapshot


def held(free: int) -> dict:
    return snapshot(
        [], [segment(0, (1000 - free, "active_allocated")), segment(5000, (free, "inactive"))]
    )


def test_a_fifth_is_unused(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, held(200)),
        "unused-reserve",
        cost_bytes=200,
        gain_bytes=200,
        evidence=["1.000 kB reserved, 800 B in use"],
        fix="empty_cache()",
    )


def test_just_below(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, held(199)), "unused-reserve")
