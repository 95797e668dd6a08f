"""gpu_gaps: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import MS, slow


def test_what_is_listed(tmp_path: Path) -> None:
    """12 ms to 1,100 ms without work, of which the profiler took 100 ms to 400 ms."""
    run = slow(tmp_path)
    assert rows(run, "gpu_gaps") == [(700 * MS, 400 * MS, 7, 0, 1)]
    shorter = rows(run, "gpu_gaps", "Duration (ns)", gap_ms=80)
    assert shorter == [(700 * MS,), (88 * MS - 100,)]
