"""Clocks of several hosts."""

from __future__ import annotations

import time

import polars as pl
import pytest

import sightline as sl
from sightline.core.model import run_folder
from sightline.record.inline import clock
from sightline.record.inline.recorder import Recorder, now


@pytest.mark.timing
@pytest.mark.parametrize("wrong_by", [0, 5_000_000, -3_600_000_000_000])
def test_the_offset_of_a_wrong_clock_is_found_within_its_bound(wrong_by):
    server = clock.Server(b"t" * clock.TOKEN_BYTES, "127.0.0.1")
    try:
        offset, bound = clock.measure(
            "127.0.0.1", server.port, server.token, lambda: time.time_ns() + wrong_by
        )
    finally:
        server.close()
    assert abs(offset + wrong_by) <= bound
    assert bound < 50_000_000


def test_who_does_not_know_the_token_gets_no_answer():
    server = clock.Server(b"t" * clock.TOKEN_BYTES, "127.0.0.1")
    try:
        with pytest.raises(OSError, match=r"closed|reset"):
            clock.measure("127.0.0.1", server.port, b"x" * clock.TOKEN_BYTES)
    finally:
        server.close()


@pytest.mark.timing
def test_two_hosts_come_to_one_clock(tmp_path):
    """A host that is 5 s ahead is moved back, and how sure that is stands in the run."""
    folder = tmp_path / "job.sightline"
    folder.mkdir()
    starts = {}
    for rank, mark in ((0, "aaaaaaaa"), (1, "bbbbbbbb")):
        file = Recorder(folder / f"rank{rank}-{mark}-{rank + 100}.events")
        file.fact(rank=rank, host_mark=mark)
        if rank == 1:
            file.fact(
                clock_reference="aaaaaaaa", clock_offset_ns=-5 * 10**9, clock_uncertainty_ns=800
            )
        at = now()
        starts[rank] = at
        file.put(2, file.name("collective"), at, at + 1000)  # RANGE
        file.close()
    run_folder.write_facts(folder, "aaaaaaaa-1", {"host_mark": "aaaaaaaa", "command": ["x"]})
    run = sl.open(str(folder))
    host = run.table("host_ops").sort("rank")
    wall = dict(host.select("rank", "start_ns").rows())
    apart = (wall[1] - starts[1]) - (wall[0] - starts[0])
    assert abs(apart + 5 * 10**9) < 1_000_000  # both files pair the clocks anew
    recordings = run.table("recordings").sort("rank")
    uncertain = recordings.get_column("clock_uncertainty_ns").to_list()
    assert uncertain[1] >= 800
    texts = run.table("quality").filter(pl.col("kind") == "clock_aligned").get_column("text")
    assert "moved by -5.000 s (± 800 ns)" in texts.item()
    # Kept when it becomes a store, where ranks stay what they are.
    sl.save(run, str(tmp_path / "store.sightline"))
    again = sl.open(str(tmp_path / "store.sightline"))
    assert (
        again.table("host_ops")
        .sort("rank")
        .select("rank", "start_ns")
        .equals(host.select("rank", "start_ns"))
    )
