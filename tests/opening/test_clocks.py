"""Ranks whose clocks are apart are put on one clock when they are opened together."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.opening.save import save_run
from support.jobs import collective, opened_job
from support.traces import opened_ranks

# Ten all-reduces of three ranks, of which rank 1 is late by 300 µs, µs.
ARRIVALS = [[1_000 * k, 1_000 * k + 300, 1_000 * k + 50] for k in range(10)]


def test_all_times_are_moved_onto_the_first_ranks_clock(tmp_path: Path) -> None:
    apart = opened_job(tmp_path / "a", ARRIVALS, off=[0, -50_000, 123_456])
    alike = opened_job(tmp_path / "b", ARRIVALS)
    times = ("rank", "start_ns", "end_ns")
    assert apart.table("device_ops").select(times).equals(alike.table("device_ops").select(times))
    assert "clocks_aligned" in apart.table("quality")["kind"].to_list()
    assert "clocks_aligned" not in alike.table("quality")["kind"].to_list()
    offsets = apart.table("recordings").sort("rank")["clock_offset_ns"].to_list()
    assert [o - offsets[0] for o in offsets] == [0, 50_000_000, -123_456_000]


def test_waiting_is_the_same_on_whatever_clocks(tmp_path: Path) -> None:
    apart = opened_job(tmp_path / "a", ARRIVALS, off=[0, -50_000, 123_456])
    alike = opened_job(tmp_path / "b", ARRIVALS)
    assert apart.ask("comm_exposure").equals(alike.ask("comm_exposure"))
    assert apart.ask("comm_exposure")["waiting_ns"].to_list() == [3_000_000, 0, 2_500_000]


def test_a_saved_run_is_on_one_clock_and_stays(tmp_path: Path) -> None:
    apart = opened_job(tmp_path, ARRIVALS, off=[0, -50_000, 123_456])
    save_run(apart, tmp_path / "job.sightline")
    again = sightline.open(str(tmp_path / "job.sightline"))
    assert again.table("device_ops").equals(apart.table("device_ops"))
    assert [p.clock for p in again.parts] == [None] * 3


def test_a_pairing_that_no_clock_explains_is_said_and_nothing_moved(tmp_path: Path) -> None:
    """Rank 1 does other things at other times: its order matches nothing."""
    uneven = [[1_000 * k, 1_000 * k + (k * 7 % 5) * 9_000, 1_000 * k] for k in range(20)]
    events = [[(came[rank], 100) for came in uneven] for rank in range(3)]
    run = opened_ranks(
        tmp_path, *[[collective(at, n, members=range(3)) for at, n in own] for own in events]
    )
    assert "clocks_contradict" in run.table("quality")["kind"].to_list()
    assert [p.clock for p in run.parts] == [None] * 3
