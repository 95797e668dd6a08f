"""Ranks without a device: collectives by Gloo, and what main threads do between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from sightline.fleet.reduce_host import HOST

STEPS, PERIOD = 8, 1000  # µs
LATE, LATE_US = 1, 200


def write_rank(folder: Path, rank: int, first: int = 0, late_us: int = LATE_US) -> None:
    """A step: a product of 300 µs, 20 µs of Python, a collective up to 700 µs, 50 µs of work.

    The late rank asks for its collective so much later; it ends at 700 µs for all.
    """
    asked = 320 + (late_us if rank == LATE else 0)
    events: list[dict[str, Any]] = []

    def add(category: str, name: str, begin: int, end: int, thread: int) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "pid": 100 + rank, "tid": thread,
                       "ts": begin, "dur": end - begin, "args": {}})  # fmt: skip

    for step in range(first, first + STEPS):
        at = step * PERIOD
        add("cpu_op", "aten::mm", at, at + 300, 1)
        add("cpu_op", "c10d::allreduce_", at + asked, at + asked, 1)
        add("user_annotation", "gloo:all_reduce", at + asked, at + 700, 2)
        add("cpu_op", "aten::add_", at + 700, at + 750, 1)
    info = {"rank": rank, "world_size": 3, "backend": "gloo"}
    trace = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
    (folder / f"rank{rank}.json").write_text(json.dumps(trace))


def test_what_lies_between_collectives(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    usual, late, _ = reduce_recordings([str(tmp_path)]).ranks
    assert usual.rows.get_column("kind").unique().to_list() == [HOST]
    # Behind the first: from one end to the next begin, of it a product and 50 µs of work.
    for rank, segment_us in ((usual, 620), (late, 820)):
        rows = rank.rows.slice(1)
        assert rows.get_column("segment_ns").unique().to_list() == [segment_us * 1000]
        assert rows.get_column("compute_ns").unique().to_list() == [350_000]
        assert rows.get_column("idle_ns").unique().to_list() == [(segment_us - 350) * 1000]


def test_the_late_host_is_named(tmp_path: Path) -> None:
    """Without its 200 µs each of eight steps is as much shorter."""
    for rank in range(3):
        write_rank(tmp_path, rank)
    worst = judge_ranks(reduce_recordings([str(tmp_path)])).verdict.stragglers.row(0, named=True)
    assert (worst["ranks"], worst["cause"]) == ([LATE], "host late")
    assert worst["gain_ns"] == STEPS * LATE_US * 1000


def test_windows_that_begin_between_other_collectives(tmp_path: Path) -> None:
    """One rank was recorded a step later: seven steps are of all, and all are matched."""
    for rank in range(3):
        write_rank(tmp_path, rank, first=1 if rank == 2 else 0)
    answer = judge_ranks(reduce_recordings([str(tmp_path)]))
    assert answer.job.unmatched == 0
    assert answer.job.rows.height == 3 * (STEPS - 1)
    worst = answer.verdict.stragglers.row(0, named=True)
    assert (worst["ranks"], worst["cause"]) == ([LATE], "host late")
    assert worst["gain_ns"] == pytest.approx((STEPS - 1) * LATE_US * 1000, rel=0.2)


def test_a_balanced_job(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank, late_us=0)
    assert judge_ranks(reduce_recordings([str(tmp_path)])).verdict.stragglers.is_empty()
