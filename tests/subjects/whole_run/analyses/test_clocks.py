"""What is said of the ranks' clocks."""

from __future__ import annotations

from pathlib import Path

from support.jobs import opened_job

ARRIVALS = [[1_000 * k, 1_000 * k + 300] for k in range(10)]


def rows(folder: Path, **told):
    asked = opened_job(folder, ARRIVALS, **told).ask("clocks")
    return asked.select("rank", "moved_ns", "offset_ns", "anchors", "state").rows()


def test_clocks_that_agree(tmp_path: Path) -> None:
    assert rows(tmp_path) == [(0, 0, 0, 10, "agree"), (1, 0, 0, 10, "agree")]


def test_clocks_that_were_moved(tmp_path: Path) -> None:
    found = rows(tmp_path, off=[0, 70_000])
    assert found == [(0, 0, 0, 10, "moved"), (1, -70_000_000, 0, 10, "moved")]


def test_one_rank_has_nothing_to_compare(tmp_path: Path) -> None:
    assert opened_job(tmp_path, [[0], [1000]]).ask("clocks").height == 0
