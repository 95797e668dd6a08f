"""nvtx_pushpop_trace: each push/pop range, with what is around and inside it."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested


def test_nested_ranges(tmp_path: Path) -> None:
    """Start, end, length, of it in other ranges and alone; pid, tid, depth, children, number.

    A range's number is that of its event; event 1 names the domain.
    """
    assert rows(nested(tmp_path), "nvtx_pushpop_trace") == [
        (0, 1000, 1000, 700, 300, "app:step", 7, 7, 0, 2, 2, None, ":2", "app:step"),
        (50, 950, 900, 0, 900, ":elsewhere", 7, 8, 0, 0, 5, None, ":5", ":elsewhere"),
        (100, 300, 200, 0, 200, ":load", 7, 7, 1, 0, 3, 2, ":2:3", "--:load"),
        (400, 900, 500, 0, 500, ":compute", 7, 7, 1, 0, 4, 2, ":2:4", "--:compute"),
    ]
