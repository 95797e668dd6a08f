"""nvtx_startend_sum: start/end ranges by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested


def test_ranges(tmp_path: Path) -> None:
    fields = "Time (%)", "Total Time (ns)", "Instances", "Range"
    assert rows(nested(tmp_path), "nvtx_startend_sum", *fields) == [
        (50.0, 860, 1, ":across"),
        (50.0, 860, 1, ":whole"),
    ]
