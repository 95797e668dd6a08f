"""What each step takes from the driver and gives back."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import entry, opened
from support.training import train


def test_a_segment_in_each_step(tmp_path: Path) -> None:
    def more(step: int) -> list[dict]:
        return [entry("segment_alloc", 99, 8, 0), entry("segment_free", 99, 8, 0)]

    rows = opened(tmp_path, train(3, more=more)).ask("allocator_churn")
    columns = ("step", "allocations", "taken", "taken_bytes", "given_back", "given_back_bytes")
    # A step ends with the optimizer's first allocation: its scratch is of the next step.
    assert rows.select(*columns).rows() == [
        (0, 5, 1, 1 << 16, 0, 0),
        (1, 5, 1, 8, 1, 8),
        (2, 4, 1, 8, 1, 8),
        (3, 0, 1, 8, 1, 8),
    ]
