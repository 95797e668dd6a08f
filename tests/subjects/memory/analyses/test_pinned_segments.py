"""The largest block in use of each segment that is partly free."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import frames, opened, segment, snapshot

HERE = frames("a.py:1:keep")


def test_only_partly_used_segments(tmp_path: Path) -> None:
    found = [
        segment(0, (100, "inactive")),
        segment(1000, (10, "active_allocated"), (70, "inactive"), (20, "active_allocated", HERE)),
        segment(2000, (65, "active_allocated")),
    ]
    rows = opened(tmp_path, snapshot([], found)).ask("pinned_segments")
    columns = ("address", "free_bytes", "free_pct", "blocks", "pin_bytes", "place")
    assert rows.select(*columns).rows() == [(1000, 70, 70.0, 2, 20, "keep (a.py:1)")]
