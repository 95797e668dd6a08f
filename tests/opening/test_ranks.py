"""Ranks of recordings: by what they say, by their names, by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.model.run import Run
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
    events = [op("a", 0, 9), launch(1, 1, 1), kernel("k", 5, 1, 1), kernel("k", 7, 1, 1)]
    paths = [write(tmp_path, events, f"rank{i}.json") for i in range(3)]
    run = sightline.open(*map(str, paths))
    ops, calls = run.table("device_ops"), run.table("host_ops")
    assert ops.get_column("device_op_id").n_unique() == ops.height == 6
    assert calls.get_column("host_op_id").n_unique() == calls.height == 6
    joined = ops.join(calls, left_on="launch_id", right_on="host_op_id")
    assert joined.height == 6
    assert (joined["rank"] == joined["rank_right"]).all()
