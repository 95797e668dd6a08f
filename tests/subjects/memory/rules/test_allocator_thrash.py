"""Steps that give segments back and take them again."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import Entry, entry, opened
from support.training import train


def moves(*steps: int) -> object:
    def more(step: int) -> list[Entry]:
        if step not in steps:
            return []
        return [entry("segment_free", 99, 64, 0), entry("segment_alloc", 99, 64, 0)]

    return more


def test_every_step(tmp_path: Path) -> None:
    found = assert_finds(
        opened(tmp_path, train(6, more=moves(*range(6)))),
        "allocator-thrash",
        cost_bytes=64,
        gain_bytes=None,
        evidence=["4 of 4 steps", "4 segments given back, 4 taken"],
        fix="no torch.cuda.empty_cache()",
    )
    assert found.severity == "warning"


def test_once_is_a_new_shape(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train(6, more=moves(3))), "allocator-thrash")


def test_warm_up(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train(6, more=moves(0))), "allocator-thrash")
