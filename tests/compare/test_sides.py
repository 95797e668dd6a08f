"""From paths to runs: each path is one, ranks of one job belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare.programs import Program, write_runs
from sightline.compare.sides import open_side
from sightline.errors import MissingDataError
from support.traces import collective, kernel, write


def test_each_path_is_a_run(tmp_path: Path) -> None:
    samples = open_side(write_runs(tmp_path, Program(), 3, "runs"))
    assert [(len(s.steps), s.devices) for s in samples] == [(11, 1)] * 3


def test_ranks_of_one_job_are_one_run(tmp_path: Path) -> None:
    paths = []
    for job in range(2):
        for rank in range(2):
            told = {"rank": rank, "world_size": 2}
            at = 1_000_000_000 * job  # the second job ran 1000 s later
            events = [collective(at, 50), kernel("k", at + 50, 100)]
            name = f"job{job}-rank{rank}.json"
            paths.append(str(write(tmp_path, events, name, distributedInfo=told)))
    samples = open_side(paths)
    assert [s.devices for s in samples] == [2, 2]
    assert [s.run.table("recordings")["path"].to_list() for s in samples] == [paths[:2], paths[2:]]


def test_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "a.folded").write_text("main;work 10\nmain 3\n")
    with pytest.raises(MissingDataError, match="cannot be compared"):
        open_side([str(tmp_path / "a.folded")])
