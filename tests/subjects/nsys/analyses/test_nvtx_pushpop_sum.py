"""nvtx_pushpop_sum: push/pop ranges by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested


def test_ranges(tmp_path: Path) -> None:
    fields = "Total Time (ns)", "Instances", "Range"
    assert rows(nested(tmp_path), "nvtx_pushpop_sum", *fields) == [
        (1000, 1, "app:step"),
        (900, 1, ":elsewhere"),
        (500, 1, ":compute"),
        (200, 1, ":load"),
    ]
