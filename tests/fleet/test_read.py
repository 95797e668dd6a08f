"""Many recordings: what is lost is said, and the rest is read."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from sightline.errors import InputError
from sightline.fleet.read import reduce_recordings
from support.many_ranks import Program, write_ranks
from support.traces import op, write


def test_a_damaged_rank_is_lost_and_named(tmp_path: Path) -> None:
    paths = list(write_ranks(Program(4, steps=2), tmp_path))
    paths[2].write_bytes(b"\x00 no recording")
    found = reduce_recordings([str(p) for p in paths])
    assert [r.rank for r in found.ranks] == [0, 1, 3]
    assert [name for name, _ in found.lost] == [str(paths[2])]


def test_two_recordings_of_one_rank_are_refused(tmp_path: Path) -> None:
    one = next(write_ranks(Program(2, steps=2), tmp_path / "a"))
    two = next(write_ranks(Program(2, steps=3), tmp_path / "b"))
    with pytest.raises(InputError, match="both rank 0"):
        reduce_recordings([str(one), str(two)])


def test_recordings_of_two_jobs_are_refused(tmp_path: Path) -> None:
    one = next(write_ranks(Program(2, steps=2), tmp_path / "a"))
    _, two = itertools.islice(write_ranks(Program(4, steps=2), tmp_path / "b"), 2)
    with pytest.raises(InputError, match=r"a job of 2 ranks, .* to one of 4"):
        reduce_recordings([str(one), str(two)])


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("{")
    with pytest.raises(InputError, match="no recording could be read"):
        reduce_recordings([str(tmp_path / "rank0.json")])


def test_recordings_of_cpus_alone_can_be_read_and_not_compared(tmp_path: Path) -> None:
    paths = [write(tmp_path, [op("aten::mm", 0, 10)], f"rank{rank}.json") for rank in range(2)]
    with pytest.raises(InputError, match="hold CPU work only"):
        reduce_recordings([str(path) for path in paths])
