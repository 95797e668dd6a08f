"""What is free at the end: in empty segments, and between blocks."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import opened, segment, snapshot


def test_three_segments(tmp_path: Path) -> None:
    found = [
        segment(0, (100, "inactive")),
        segment(1000, (10, "active_allocated"), (20, "inactive"), (5, "active_awaiting_free")),
        segment(2000, (65, "active_allocated")),
    ]
    found[2]["blocks"][0]["requested_size"] = 60
    row = opened(tmp_path, snapshot([], found)).ask("fragmentation").row(0, named=True)
    expected = {
        "reserved_bytes": 200, "active_bytes": 80, "rounding_bytes": 5, "free_bytes": 120,
        "unused_bytes": 100, "pinned_bytes": 20, "pieces": 2, "largest_free_bytes": 100,
        "segments": 3, "pinned_segments": 1,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["fragmented_pct"] == 100 * (1 - 100 / 120)
