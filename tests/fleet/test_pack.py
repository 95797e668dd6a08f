"""Packed ranks come back as they were, in kilobytes."""

from __future__ import annotations

from pathlib import Path

from sightline.fleet.pack import merge_packed, pack_ranks, unpack_ranks
from sightline.fleet.read import reduce_recording
from support.many_ranks import Program, write_ranks


def test_merged_packets_hold_what_was_put_in(tmp_path: Path) -> None:
    paths = list(write_ranks(Program(8, steps=6, offset_ns=5e7), tmp_path))
    read = [(at, reduce_recording(str(path), None)) for at, path in enumerate(paths)]
    merged = merge_packed([pack_ranks(read[4:]), pack_ranks([(8, "no")]), pack_ranks(read[:4])])
    back = unpack_ranks(merged)
    assert [at for at, _ in back] == list(range(9))
    assert back[8] == (8, "no")
    for (_, was), (_, now) in zip(read, back, strict=False):
        assert now[0].rows.equals(was[0].rows)
        assert now[0].rows.schema == was[0].rows.schema
        assert {**vars(now[0]), "rows": None} == {**vars(was[0]), "rows": None}
    # 24 collectives each: some hundred bytes with a neighbour's beside them.
    assert len(merged.rows) < 8 * 2_000


def test_a_rank_without_collectives(tmp_path: Path) -> None:
    path = next(write_ranks(Program(8, steps=1), tmp_path))
    rank = reduce_recording(str(path), None)[0]
    empty = type(rank)(7, rank.rows.clear(), 0, 5, 5, rank.parts)
    assert unpack_ranks(pack_ranks([(0, [empty])]))[0][1][0].rows.equals(empty.rows)
