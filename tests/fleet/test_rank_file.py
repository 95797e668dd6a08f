"""Reduced ranks as a file: all that was in them, and nothing that does not fit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from attack.mutate import damage
from sightline.errors import DamagedError
from sightline.fleet.answer import judge_ranks
from sightline.fleet.rank_file import RankFile, read_ranks, write_ranks
from sightline.fleet.read import reduce_recordings
from support.many_ranks import HOST, Cause, Program
from support.many_ranks import write_ranks as write_traces


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    program = Program(4, steps=4, causes=(Cause(HOST, 2, 400_000),))
    return list(write_traces(program, tmp_path_factory.mktemp("traces")))


@pytest.fixture(scope="module")
def held(traces: list[Path]) -> RankFile:
    reduced = reduce_recordings([str(path) for path in traces])
    ranks = [(f"rank{rank.rank}", rank) for rank in reduced.ranks]
    return RankFile(ranks, [("rank9", "it is damaged")])


def test_what_is_read_is_what_was_written(held: RankFile) -> None:
    again = read_ranks(write_ranks(held), "x")
    assert again.lost == held.lost
    for (name, rank), (name_again, rank_again) in zip(held.ranks, again.ranks, strict=True):
        assert (name_again, rank_again.rank) == (name, rank.rank)
        assert rank_again.rows.equals(rank.rows.select(rank_again.rows.columns))
        assert set(rank_again.rows.columns) == set(rank.rows.columns)
        assert (rank_again.begin_ns, rank_again.tail_ns, rank_again.parts) == (
            rank.begin_ns,
            rank.tail_ns,
            rank.parts,
        )


def test_a_folder_of_them_is_judged_as_the_traces_are(
    traces: list[Path], held: RankFile, tmp_path: Path
) -> None:
    half = len(held.ranks) // 2
    for node, part in (("a", held.ranks[:half]), ("b", held.ranks[half:])):
        (tmp_path / f"{node}.ranks").write_bytes(write_ranks(RankFile(part, [])))
    of_traces = judge_ranks(reduce_recordings([str(path) for path in traces])).verdict
    of_files = judge_ranks(reduce_recordings([str(tmp_path)])).verdict
    assert of_files.stragglers.equals(of_traces.stragglers)
    assert of_files.stragglers.row(0, named=True)["ranks"] == [2]


def test_nothing_of_it(held: RankFile) -> None:
    with pytest.raises(DamagedError, match="not reduced ranks"):
        read_ranks(b"PK\x03\x04", "x")
    head, _, rows = write_ranks(held).partition(b"\n")
    told = json.loads(head)
    for change in ({"ranks": [{}]}, {"ranks": 7}, {"lost": [1]}, {"ranks": told["ranks"] * 2}):
        text = json.dumps({**told, **change}).encode()
        with pytest.raises(DamagedError):
            read_ranks(text + b"\n" + rows, "x")
    told["ranks"][0]["begin_ns"] = 1 << 80
    with pytest.raises(DamagedError, match="is not a number"):
        read_ranks(json.dumps(told).encode() + b"\n" + rows, "x")


def test_damaged_anywhere(held: RankFile) -> None:
    """Either refused, with the reason, or rows that fit together and can be written again."""
    rng, whole = random.Random(7), write_ranks(held)
    refused = 0
    for _ in range(150):
        kind, made = damage(whole, rng, whole)
        try:
            again = read_ranks(made, "x")
        except DamagedError as error:
            assert error.why, kind
            refused += 1
            continue
        assert len(again.ranks) <= len(held.ranks), kind
        for (_, rank), (_, rank_again) in zip(
            again.ranks, read_ranks(write_ranks(again), "x").ranks, strict=True
        ):
            assert rank_again.rows.equals(rank.rows), kind
    assert 0 < refused <= 150
