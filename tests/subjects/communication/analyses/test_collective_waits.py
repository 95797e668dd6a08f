"""Who came last, what it added, and who waited."""

from __future__ import annotations

from pathlib import Path

from support.jobs import opened_job


def test_the_late_rank_comes_first(tmp_path: Path) -> None:
    """Rank 1 is last twice, by 40 and 60 µs before the next; rank 0 once, by 10."""
    run = opened_job(tmp_path, [[0, 50, 10], [1_000, 1_080, 1_020], [2_010, 2_000, 2_000]])
    waits = run.ask("collective_waits")
    shown = ("rank", "collectives", "last", "added_ns", "waited_ns")
    assert waits.select(shown).rows() == [
        (1, 3, 2, 100_000, 10_000),
        (0, 3, 1, 10_000, 130_000),
        (2, 3, 0, 0, 110_000),
    ]
