"""hot_lines: the lines with most samples, and what warps wait for there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.profiled import opened, profiled, with_code


def test_two_lines(tmp_path: Path) -> None:
    """30 of 33 samples in line 12, all of one reason; 3 in line 10, which were about to issue."""
    run = opened(tmp_path, with_code())
    fields = "file", "line", "samples", "share_pct", "reason", "reason_pct"
    assert rows(run, "hot_lines", *fields) == [
        ("src/scale.cu", 12, 30, pytest.approx(100 * 30 / 33), "long_scoreboard", 100.0),
        ("src/scale.cu", 10, 3, pytest.approx(100 * 3 / 33), None, None),
    ]


def test_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError):
        profiled(tmp_path, {}).ask("hot_lines")
