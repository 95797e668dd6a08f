"""Ranks whose windows begin and end between other collectives, laid over each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from sightline.fleet.align import cut_to_common, find_shift
from sightline.fleet.reduce import Rank

SIZES = [8, 4, 8, 64]


def make_rank(number: int, first: int, count: int, *, clock_ns: int = 0, **columns: object) -> Rank:
    """The collectives `first` to `first + count` of a job with one each 1,000 ns, of 200 ns."""
    rows = pl.DataFrame(
        {
            "device_op_id": range(count),
            "op": "all_reduce",
            "group_size": 4,
            "bytes": [SIZES[n % len(SIZES)] for n in range(first, first + count)],
            "sequence": pl.Series([None] * count, dtype=pl.Int64),
            "start_ns": [n * 1000 + 800 + clock_ns for n in range(first, first + count)],
            "end_ns": [n * 1000 + 1000 + clock_ns for n in range(first, first + count)],
            "anchor": range(-1, count - 1),
            "queued": [-1] * count,
            "behind_ns": [0] * count,
            "segment_ns": [800] * count,
        }
    ).with_columns(**columns)
    begin, end = first * 1000 + clock_ns, (first + count) * 1000 + 500 + clock_ns
    return Rank(number, rows, begin, end, 500, {})


def test_what_not_all_recorded_is_left_out() -> None:
    """Collectives 2 to 9 of one, 3 to 10 of the other: 3 to 9 are of both, from 3,000 ns on."""
    early, late = cut_to_common([make_rank(0, 2, 8), make_rank(1, 3, 8)])
    assert early.rows.get_column("start_ns").to_list() == [n * 1000 + 800 for n in range(3, 10)]
    assert late.rows.get_column("start_ns").to_list() == early.rows.get_column("start_ns").to_list()
    assert early.rows.get_column("anchor").to_list() == [-1, 0, 1, 2, 3, 4, 5]
    assert early.rows.get_column("device_op_id").to_list() == [0, 1, 2, 3, 4, 5, 6]
    assert (early.begin_ns, early.end_ns, early.tail_ns) == (3000, 10_500, 500)
    assert (late.begin_ns, late.end_ns, late.tail_ns) == (3000, 10_000, 0)


def test_clocks_apart_by_less_than_half_of_what_lies_between() -> None:
    assert find_shift(make_rank(1, 5, 20, clock_ns=400), make_rank(0, 2, 30)) == 3
    assert find_shift(make_rank(1, 5, 20, clock_ns=-400), make_rank(0, 2, 30)) == 3


def test_clocks_apart_by_several_collectives() -> None:
    """What lies between two ends is never the same: 3 places, though clocks are 7.3 ms apart."""
    dice = np.random.default_rng(5)
    ends = np.cumsum(dice.normal(1_000_000, 50_000, 60)).astype(int)
    noise = dice.normal(0, 2000, 60).astype(int)
    for clock_ns in (0, 7_300_000, -7_300_000):
        own = make_rank(1, 3, 40, end_ns=pl.Series(ends[3:43] + noise[3:43] + clock_ns))
        assert find_shift(own, make_rank(0, 0, 60, end_ns=pl.Series(ends))) == 3


def test_sequence_numbers_need_no_clock() -> None:
    own = make_rank(1, 5, 20, clock_ns=123_456_789, sequence=pl.int_range(105, 125))
    other = make_rank(0, 2, 30, sequence=pl.int_range(102, 132))
    assert find_shift(own, other) == 3


def test_ranks_of_other_kinds_are_left_as_they_are() -> None:
    stage = make_rank(2, 0, 8, op=pl.lit("all_gather"))
    first, second, third = cut_to_common([make_rank(0, 2, 8), make_rank(1, 3, 8), stage])
    assert (first.rows.height, second.rows.height) == (7, 7)
    assert third is stage


def test_ranks_of_other_times_are_left_as_they_are() -> None:
    one, other = make_rank(0, 0, 8), make_rank(1, 100, 8)
    assert cut_to_common([one, other]) == [one, other]


def test_a_rank_without_collectives() -> None:
    idle = replace(make_rank(1, 0, 4), rows=make_rank(1, 0, 4).rows.clear())
    assert cut_to_common([make_rank(0, 0, 4), idle])[1] is idle


def test_groups_that_end_apart() -> None:
    """Ranks of a job in groups, on one clock, one of them late: no place but the same."""
    dice = np.random.default_rng(3)
    ends = np.cumsum(np.tile([250_000, 300_000, 280_000, 900_000], 4))
    first = make_rank(0, 0, 16, end_ns=pl.Series(ends))
    for late_ns in (0, 150_000, 400_000):
        own = ends + late_ns + dice.normal(0, 20_000, 16).astype(int)
        assert find_shift(make_rank(1, 0, 16, end_ns=pl.Series(own)), first) == 0
