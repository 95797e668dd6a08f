"""um_sum: pages of unified memory that moved or faulted, by address."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import with_unified_memory


def test_two_pages(tmp_path: Path) -> None:
    """64 KiB in 500 ns to the device and as many back; 4 KiB in 100 ns; faults of both sides."""
    run = with_unified_memory(tmp_path)
    assert rows(run, "um_sum") == [
        ("0x7F9C80000000", 0.065536, 0.065536, 1, 3, 131_072.0),
        ("0x1000", 0.004096, 0.0, None, None, 40_960.0),
    ]
    assert len(rows(run, "um_sum", rows=1)) == 1
