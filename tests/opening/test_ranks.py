"""Ranks of recordings: by what they say, by their names, by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.opening.run import open_jobs
from support.kernel_traces import RUNNABLE, KernelTrace
from support.traces import (
    kernel,
    launch,
    op,
    opened,
    write,
)


def only(run: Run, table: str, **where: Any) -> dict[str, Any]:
    (row,) = run.table(table).filter(**where).to_dicts() if where else run.table(table).to_dicts()
    return row


@pytest.mark.parametrize(
    ("file", "info", "rank", "source"),
    [
        ("t.json", {"rank": 5, "world_size": 8}, 5, "recording"),
        ("rank3.json", {"rank": 5}, 5, "recording"),
        ("rank3.json", {}, 3, "file name"),
        ("job_rank-12.pt.trace.json", None, 12, "file name"),
        ("rank_7/t.json", None, 7, "file name"),
        ("t.json", None, 0, "order"),
        ("frank3.json", None, 0, "order"),
        ("t.json", {"rank": -1}, 0, "order"),
        ("t.json", {"rank": "2"}, 2, "recording"),
        ("t.json", [], 0, "order"),
    ],
)
def test_rank(tmp_path: Path, file: str, info: Any, rank: int, source: str) -> None:
    header = {} if info is None else {"distributedInfo": info}
    run = opened(tmp_path, [kernel("k", 1, 1)], file, **header)
    row = only(run, "recordings")
    assert (row["rank"], row["rank_source"]) == (rank, source)
    assert only(run, "device_ops")["rank"] == rank


def test_ranks_of_several_files(tmp_path: Path) -> None:
    """Own ranks stay; a second claim and files without a rank get the free ones, with a note."""
    claims = {"a.json": 1, "b.json": 1, "c.json": None, "d.json": 0}
    paths = [
        write(
            tmp_path,
            [kernel(name, 1, 1)],
            name,
            **({} if rank is None else {"distributedInfo": {"rank": rank}}),
        )
        for name, rank in claims.items()
    ]
    run = sightline.open(*map(str, paths), same_job=True)
    assert dict(run.table("device_ops").select("name", "rank").rows()) == {
        "a.json": 1,
        "b.json": 2,
        "c.json": 3,
        "d.json": 0,
    }
    notes = run.table("quality").filter(kind="rank_by_order").get_column("rank").to_list()
    assert notes == [2, 3]


def test_ids_are_unique_in_a_run_of_several_files(tmp_path: Path) -> None:
    events = [op("a", 0, 9), launch(1, 1, 1), launch(3, 1, 2)]
    events += [kernel("k", 5, 1, 1), kernel("k", 7, 1, 2)]
    paths = [write(tmp_path, events, f"rank{i}.json") for i in range(3)]
    run = sightline.open(*map(str, paths))
    ops, calls = run.table("device_ops"), run.table("host_ops")
    assert ops.get_column("device_op_id").n_unique() == ops.height == 6
    assert calls.get_column("host_op_id").n_unique() == calls.height == 9
    joined = ops.join(calls, left_on="launch_id", right_on="host_op_id")
    assert joined.height == 6
    assert (joined["rank"] == joined["rank_right"]).all()


def write_process(folder: Path, name: str, tid: int, **header: Any) -> str:
    """A launch and its kernel, of a thread of this number."""
    events = [{**launch(1, 1, 1), "tid": tid}, kernel("k", 5, 1, 1)]
    return str(write(folder, events, name, **header))


def write_system(folder: Path, *tids: int) -> str:
    """A trace of the kernel in which these threads ran."""
    trace = KernelTrace()
    for tid in tids:
        trace.switch(tid, 0, 0, RUNNABLE, tid)
    return str(trace.write(folder))


@pytest.mark.parametrize("is_first", [True, False])
def test_system_has_the_rank_of_a_process_on_its_host(tmp_path: Path, is_first: bool) -> None:
    """It is not a rank of the job, needs no remark on it, and keeps that in a store of its own."""
    gpu = write_process(tmp_path, "t.json", 7, distributedInfo={"rank": 3})
    paths = [write_system(tmp_path / "kernel", 7, 8), gpu]
    run = sightline.open(*(paths if is_first else reversed(paths)))
    sightline.save(run, str(tmp_path / "saved.sightline"))
    for known in (run, sightline.open(str(tmp_path / "saved.sightline"))):
        sources = dict(known.table("recordings").select("format", "rank_source").rows())
        assert sources == {"ctf": "host", "kineto": "recording"}
        assert known.table("recordings").get_column("rank").to_list() == [3, 3]
        assert known.table("sched_events").get_column("rank").unique().to_list() == [3]
        assert "rank_by_order" not in known.table("quality").get_column("kind")
        alone = sightline.open(gpu).ask("breakdown")
        assert known.ask("breakdown").rows() == alone.rows()


def test_systems_of_two_hosts(tmp_path: Path) -> None:
    """Each belongs to the process whose threads it saw, or whose rank its name states."""
    ranks = [write_process(tmp_path, f"rank{r}.json", 10 + r) for r in range(3)]
    systems = [
        write_system(tmp_path / name, *tids) for name, tids in [("a", (5, 12)), ("b", (11,))]
    ]
    named = write_system(tmp_path / "kernel-rank0", 11, 12)
    run = sightline.open(*systems, named, *ranks)
    recordings = run.table("recordings").select("path", "rank", "rank_source")
    assert recordings.filter(rank_source="host").rows() == [
        (systems[0], 2, "host"),
        (systems[1], 1, "host"),
        (named, 0, "host"),
    ]
    assert recordings.get_column("rank").n_unique() == 3


def test_systems_whose_threads_do_not_tell_are_of_different_hosts(tmp_path: Path) -> None:
    """In containers threads have numbers of their own: no rank has the threads of two hosts."""
    ranks = [write_process(tmp_path, f"rank{r}.json", 10 + r) for r in range(3)]
    systems = [write_system(tmp_path / name, 700) for name in ("a", "b")]
    run = sightline.open(*ranks, *systems)
    hosts = run.table("recordings").filter(rank_source="host")
    assert hosts.select("path", "rank").rows() == [(systems[0], 0), (systems[1], 1)]


def test_a_job_in_several_folders_with_a_system_beside_it(tmp_path: Path) -> None:
    """The system is not a rank, so it does not keep the folders' ranks from being one job's."""
    for rank in range(2):
        folder = tmp_path / f"n{rank}"
        folder.mkdir()
        write_process(folder, "t.json", 7, distributedInfo={"rank": rank, "world_size": 2})
        write_system(folder / "kernel", 7)
    ((_, run),) = open_jobs([str(tmp_path / "n0"), str(tmp_path / "n1")])
    rows = run.table("recordings").select("format", "rank").sort("rank", "format").rows()
    assert rows == [("ctf", 0), ("kineto", 0), ("ctf", 1), ("kineto", 1)]


def test_system_alone(tmp_path: Path) -> None:
    run = sightline.open(write_system(tmp_path / "kernel", 7))
    assert only(run, "recordings")["rank_source"] == "order"
