"""NVTX ranges, through NVIDIA's own header and loader, into the recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from support.cupti_mock import Built, build, play

pytestmark = pytest.mark.xdist_group("cupti")


@pytest.fixture(scope="module", params=[False, True], ids=["toolkit", "wheels"])
def built(request: pytest.FixtureRequest) -> Built:
    return build(layouts=request.param)


def test_every_way_to_say_a_range(built: Built, tmp_path: Path) -> None:
    outcome = play(built, tmp_path, "ranges")
    assert outcome.imported.quality == []
    ranges = outcome.imported.tables["host_ops"].filter(layer="annotation")
    rows = {r["name"]: r for r in ranges.iter_rows(named=True) if r["range_kind"] != "mark"}
    marks = {r["name"]: r for r in ranges.filter(range_kind="mark").iter_rows(named=True)}
    assert set(rows) == {"outer", "with payload", "grüße", "registered name", "across threads"}
    assert set(marks) == {"a mark", "registered name"}
    inner = rows["with payload"]
    assert (inner["payload"], inner["category"], inner["domain"]) == ("-42", "math", None)
    assert inner["parent_id"] == rows["outer"]["host_op_id"]
    assert rows["grüße"]["parent_id"] == inner["host_op_id"]
    assert marks["a mark"]["parent_id"] == rows["grüße"]["host_op_id"]
    library = rows["registered name"]
    assert (library["domain"], library["category"], library["payload"]) == ("library", "io", "2.5")
    assert (marks["registered name"]["category"], marks["registered name"]["payload"]) == (
        "4",
        "0.5",
    )
    across = rows["across threads"]
    assert across["range_kind"] == "startend"
    assert across["end_tid"] not in (None, across["tid"])
    for row in rows.values():
        assert row["end_ns"] >= row["start_ns"]
    assert (
        rows["outer"]["start_ns"] <= inner["start_ns"] <= inner["end_ns"] <= rows["outer"]["end_ns"]
    )


@pytest.mark.timing
def test_a_hundred_thousand_ranges(built: Built, tmp_path: Path) -> None:
    """None is lost, and they are in order."""
    outcome = play(
        built, tmp_path, "pushes=50000", "sleep=150", "pushes=50000", SIGHTLINE_CUPTI_FLUSH_MS="50"
    )
    ranges = outcome.file.frame("ranges")
    assert ranges.height == 100_000
    assert dict(ranges.group_by("name").len().iter_rows()) == {"odd": 50_000, "even": 50_000}
    starts, ends = ranges["start"].to_numpy(), ranges["end"].to_numpy()
    assert np.all(starts[1:] >= ends[:-1])


def test_ranges_that_find_no_room_are_counted(built: Built, tmp_path: Path) -> None:
    outcome = play(built, tmp_path, "pushes=300000", SIGHTLINE_CUPTI_FLUSH_MS="60000")
    kept = outcome.file.frame("ranges").height
    assert outcome.limits == {"dropped_ranges": 300_000 - kept}
    assert kept > 50_000


def test_a_range_that_never_ended(built: Built, tmp_path: Path) -> None:
    """It ends with the recording, and what was done in it is inside."""
    outcome = play(built, tmp_path, "open", "pushes=3")
    assert outcome.limits == {"unclosed_ranges": 1}
    ranges = outcome.imported.tables["host_ops"]
    opened = ranges.filter(name="open").row(0, named=True)
    inside = ranges.filter(pl.col("name").is_in(["odd", "even"]))
    assert set(inside["parent_id"]) == {opened["host_op_id"]}
    assert opened["end_ns"] >= inside["end_ns"].max()


@pytest.mark.timing
def test_ranges_of_a_killed_program(built: Built, tmp_path: Path) -> None:
    outcome = play(
        built,
        tmp_path,
        "pushes=100",
        "sleep=150",
        "pushes=5",
        "kill",
        SIGHTLINE_CUPTI_FLUSH_MS="50",
    )
    assert 100 <= outcome.file.frame("ranges").height <= 105


def test_a_storm_of_forks(built: Built, tmp_path: Path) -> None:
    """Eight threads are inside all the time, and no child of 60 finds a lock held for ever."""
    outcome = play(built, tmp_path, "storm=60")
    assert outcome.code == 0, outcome.said
    assert outcome.limits.keys() <= {"dropped_ranges"}


def test_threads_that_have_ended_are_forgotten(built: Built, tmp_path: Path) -> None:
    """What they said is kept."""
    verbs = ["ranges", "sleep=30"] * 20
    outcome = play(built, tmp_path, *verbs, SIGHTLINE_CUPTI_FLUSH_MS="10")
    ended_by_threads = outcome.file.frame("ranges").filter(name="across threads")
    assert ended_by_threads.get_column("end_tid").n_unique() == 20
    assert ended_by_threads.filter(pl.col("end") > 0).height == 20


def test_a_child_of_a_fork_may_go_on_with_ranges(built: Built, tmp_path: Path) -> None:
    outcome = play(built, tmp_path, "pushes=10", "fork=5", "pushes=10")
    assert outcome.code == 0
    assert outcome.file.frame("ranges").height == 20
