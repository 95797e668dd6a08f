"""A failed allocation: what was free at that moment, in pieces between blocks of 512 bytes."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import alloc, entry, frames, free, opened, segment, snapshot

HERE = frames("a.py:1:make")


def test_pieces_of_the_moment(tmp_path: Path) -> None:
    events = [
        entry("segment_alloc", 4096, 4096, 0),
        alloc(4096, 500, 1),
        alloc(4608, 1024, 2),
        alloc(5632, 512, 3),
        *free(4608, 1024, 4),
        entry("oom", 0, 3000, 5, HERE, device_free=77),
        *free(5632, 512, 6),
    ]
    end = [segment(4096, (512, "active_allocated"), (3584, "inactive"))]
    end[0]["blocks"][0]["requested_size"] = 500
    row = opened(tmp_path, snapshot(events, end)).ask("out_of_memory").row(0, named=True)
    # 512 in use, 1024 free, 512 in use, then the rest of 2048: the free after it does not count.
    assert (row["free_bytes"], row["pieces"], row["largest_free_bytes"]) == (3072, 2, 2048)
    assert (row["asked_bytes"], row["device_free_bytes"]) == (3000, 77)
    assert (row["allocated_bytes"], row["reserved_bytes"]) == (1012, 4096)
    assert row["place"] == "make (a.py:1)"
