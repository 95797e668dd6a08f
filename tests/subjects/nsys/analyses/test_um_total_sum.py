"""um_total_sum: all that moved, and all faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.exports import opened, with_unified_memory
from synth_nsys import Export


def test_two_pages(tmp_path: Path) -> None:
    assert rows(with_unified_memory(tmp_path), "um_total_sum") == [
        (pytest.approx(0.069632), 0.065536, 1, 3, "0x1000", "0x7F9C80000000")
    ]


def test_not_recorded(tmp_path: Path) -> None:
    export = Export()
    export.kernel("k", 0, 10, 1)
    for report in ("um_sum", "um_total_sum"):
        with pytest.raises(MissingDataError, match="unified memory"):
            opened(tmp_path, export).ask(report)
