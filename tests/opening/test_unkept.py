"""What is read for one question: the same run, and nothing of it in the cache."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sightline.core import registry
from sightline.core.model.run import Run
from sightline.errors import InputError
from sightline.fleet.rank_file import RankFile, write_ranks
from sightline.fleet.read import reduce_runs
from sightline.opening.run import open_run
from sightline.opening.unkept import open_unkept
from support.many_ranks import HOST, Cause, Program
from support.nodes import write_plain

JOB = Program(3, steps=4, causes=(Cause(HOST, 1, 300_000),))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SIGHTLINE_CACHE", str(folder))
    return folder


def read_all(run: Run) -> dict[str, pl.DataFrame]:
    # What is known of a file before it is opened is all that may differ.
    names = registry.list_names("tables")
    return {name: run.table(name).drop("content", strict=False) for name in names}


def test_it_is_the_run_that_the_cache_gives(tmp_path: Path, cache: Path) -> None:
    traces = list(map(Path, write_plain(JOB, tmp_path / "job")))
    every = [read_all(open_unkept(trace, "kineto")) for trace in traces]
    assert not list(cache.rglob("run.json"))
    for trace, alone in zip(traces, every, strict=True):
        for name, rows in read_all(open_run([str(trace)])).items():
            assert_frame_equal(alone[name], rows, check_row_order=True)
        assert alone["device_ops"].height and alone["collectives"].height


def test_ranks_are_reduced_to_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    traces = list(map(Path, write_plain(JOB, tmp_path / "job")))
    reduced = []
    for runs in (
        [(t.name, open_unkept(t, "kineto")) for t in traces],
        [(t.name, open_run([str(t)])) for t in traces],
    ):
        found = [(name, rank) for name, ranks in reduce_runs(runs) for rank in ranks]
        reduced.append(write_ranks(RankFile(found, [])))  # type: ignore[arg-type]
    assert len(found) == JOB.ranks
    assert reduced[0] == reduced[1]


def test_what_is_no_trace_is_said(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "rank_0.json").write_text("none")
    with pytest.raises(InputError):
        open_unkept(tmp_path / "rank_0.json", "kineto")
