"""The picture of an allocator's segments: what is drawn adds up to what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.subjects.memory.panels._segments import make_segments
from support.snapshots import opened, segment, snapshot
from synth_memory.programs import simulate


def test_blocks_in_their_segments(tmp_path: Path) -> None:
    segments = [
        segment(0x1000, (512, "active_allocated"), (1024, "inactive")),
        segment(0x9000, (4096, "active_allocated")),
    ]
    picture = make_segments(opened(tmp_path, snapshot([], segments)), 0, 0)
    assert picture["bytes"] == [4096, 1536]
    drawn = zip(*(picture[key] for key in ("row", "at", "size", "of")), strict=True)
    kinds = picture["kinds"]
    assert [(row, at, size, kinds[of]) for row, at, size, of in drawn] == [
        (1, 0, 512, "from earlier"),
        (1, 512, 1024, "free"),
        (0, 0, 4096, "from earlier"),
    ]


def test_small_neighbours_are_drawn_as_one(tmp_path: Path) -> None:
    """Of 1 MB the least that is drawn is 2 kB: ten blocks of 512 bytes are three parts."""
    small = [(512, "active_allocated")] * 10
    picture = make_segments(opened(tmp_path, snapshot([], [segment(0, *small)])), 0, 0)
    assert picture["count"] == [1] * 10  # the segment itself is small
    large = segment(1 << 30, (1_024_000, "inactive"))
    picture = make_segments(opened(tmp_path, snapshot([], [segment(0, *small), large])), 0, 0)
    mine = [count for row, count in zip(picture["row"], picture["count"], strict=True) if row == 1]
    assert sum(mine) == 10
    assert len(mine) == 3


@pytest.mark.parametrize("cause", ["memory-fragmentation", "allocator-thrash"])
def test_parts_fill_their_segments(tmp_path: Path, cause: str) -> None:
    picture = make_segments(opened(tmp_path, simulate(cause, 2).document), 0, 0)
    filled = [0] * len(picture["bytes"])
    for row, at, size in zip(picture["row"], picture["at"], picture["size"], strict=True):
        assert at == filled[row]
        filled[row] += size
    assert filled == picture["bytes"]
