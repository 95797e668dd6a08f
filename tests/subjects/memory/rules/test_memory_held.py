"""Who holds the memory of a snapshot without a history."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import alloc, frames, opened, segment, snapshot

CACHE, MODEL = frames("cache.py:9:grow", "t.py:1:run"), frames("model.py:3:load", "t.py:1:run")
HELD = [
    segment(0, (600, "active_allocated", CACHE), (100, "inactive")),
    segment(5_000, (200, "active_allocated", MODEL)),
    segment(9_000, (100, "inactive")),
]


def test_who_allocated_what_is_in_use(tmp_path: Path) -> None:
    found = assert_finds(
        opened(tmp_path, snapshot([], HELD)),
        "memory-held",
        cost_bytes=800,
        gain_bytes=None,
        evidence=[
            "800 B of the 1.000 kB",
            "(80.0 %), 600 B from grow (cache.py:9); the largest free piece has 100 B",
            "600 B in 1 block: grow (cache.py:9)",
            "200 B in 1 block: load (model.py:3)",
            "200 B are free: 100 B in segments that nothing uses, 100 B in pieces",
        ],
        fix="_record_memory_history()",
    )
    assert found.is_remark


def test_with_a_history_others_say_more(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, snapshot([alloc(0, 600, 1, CACHE)], HELD)), "memory-held")


def test_without_stacks_there_is_nobody_to_name(tmp_path: Path) -> None:
    bare = [segment(0, (600, "active_allocated"), (100, "inactive"))]
    assert_silent(opened(tmp_path, snapshot([], bare)), "memory-held")
