"""A failed allocation is the first finding, with where the memory was."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import alloc, entry, frames, opened, segment, snapshot
from support.training import train

HERE = frames("a.py:1:make")


def failing(asked: int) -> dict:
    events = [alloc(0, 512, 1), alloc(1024, 512, 2), entry("oom", 0, asked, 3, HERE, device_free=9)]
    held = [(512, "active_allocated"), (512, "inactive"), (512, "active_allocated")]
    return snapshot(events, [segment(0, *held, (512, "inactive"))])


def test_enough_is_free_but_in_pieces(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, failing(1000)),
        "out-of-memory",
        cost_bytes=1000,
        gain_bytes=1000,
        evidence=["1.024 kB were free in 2 pieces of at most 512 B", "make (a.py:1)"],
        fix="expandable_segments:True",
    )


def test_the_memory_is_full(tmp_path: Path) -> None:
    found = assert_finds(
        opened(tmp_path, failing(5000)),
        "out-of-memory",
        cost_bytes=5000,
        gain_bytes=5000,
        evidence=["1 failure"],
        fix="shrink what fills the memory",
    )
    assert found.states_limit


def test_nothing_failed(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train()), "out-of-memory")


def test_a_gpu_that_holds_far_more_than_the_others(tmp_path: Path) -> None:
    """GPU 0 ran out with 1,024 bytes, GPU 1 has 100."""
    whole = failing(5_000)
    whole["device_traces"].append([alloc(0, 100, 1)])
    found = assert_finds(
        opened(tmp_path, whole),
        "out-of-memory",
        cost_bytes=5_000,
        gain_bytes=5_000,
        evidence=["GPU 1 needed 100 B at most"],
        fix="divide the work evenly between the GPUs",
    )
    assert found.states_limit
