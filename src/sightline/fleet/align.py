"""Ranks that were recorded over the same time, cut to the collectives that all of them recorded.

A window of time begins and ends between other collectives on each rank. The k-th of one rank is
then not the k-th of another, and no two ranks do the same from the beginning to the end, which is
what makes them peers. Those that do the same kinds of collectives are laid over each other: by the
sequence numbers that they carry, else by when they end, which is nearly at once on all ranks. What
not all of them have lies at the edges, and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sightline.fleet.reduce import Rank

_TRIED = 256  # collectives that are looked at: enough to tell places apart
# How far from where clocks agree: 5 ms, as far as those of a cluster with NTP are apart, of
# collectives that are 0.1 ms apart.
_AROUND = 50
# Ours: ranks of one group end within some µs of each other, those of others within what a step
# varies by. By chance a wrong place was three times as even as the right one (256 ranks in groups
# of eight, 12 ends), on clocks that were the same.
_BETTER, _LEAST_ENDS = 8.0, 32
# Where less than this is left (ours), the ranks were recorded over different times.
_LEAST_SHARE = 0.5
_KINDS = ("op", "group_size", "bytes")
_PLACE = ["op", "group_size", "sequence"]


def cut_to_common(ranks: Sequence[Rank]) -> list[Rank]:
    """The ranks, each without the collectives at its edges that others like it do not have."""
    alike: dict[object, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if rank.rows.height:
            alike[_list_kinds(rank)].append(rank)
    cut = {one.rank: one for like in alike.values() for one in _cut_alike(like)}
    return [cut.get(rank.rank, rank) for rank in ranks]


def _list_kinds(rank: Rank) -> frozenset[tuple[object, ...]]:
    return frozenset(rank.rows.select(_KINDS).iter_rows())


def _cut_alike(ranks: Sequence[Rank]) -> list[Rank]:
    first = max(ranks, key=lambda rank: (rank.rows.height, -rank.rank))
    theirs = _mark(first)
    shifts = [0 if rank is first else _shift_to(_mark(rank), theirs) for rank in ranks]
    begin = max(shifts)
    end = min(shift + rank.rows.height for rank, shift in zip(ranks, shifts, strict=True))
    if end - begin < _LEAST_SHARE * first.rows.height:
        return list(ranks)
    return [
        _cut(rank, begin - shift, end - shift) for rank, shift in zip(ranks, shifts, strict=True)
    ]


@dataclass(frozen=True)
class _Marks:
    """By what one rank's collectives are told from each other.

    `places`: those with a sequence number that is theirs alone, and which one each is (`nth`), if
    any is numbered; when all of them end, and a hash of the kind of each, of this process alone.
    """

    places: pl.DataFrame | None
    ends: np.ndarray
    kinds: np.ndarray


def _mark(rank: Rank) -> _Marks:
    kinds = np.array([hash(kind) for kind in rank.rows.select(_KINDS).iter_rows()])
    return _Marks(_list_places(rank.rows), rank.rows.get_column("end_ns").to_numpy(), kinds)


def _list_places(rows: pl.DataFrame) -> pl.DataFrame | None:
    if rows.get_column("sequence").null_count() == rows.height:
        return None
    places = rows.select(*_PLACE, nth=pl.int_range(pl.len()))
    return places.drop_nulls("sequence").unique(_PLACE, keep="none")


def find_shift(rank: Rank, first: Rank) -> int:
    """How many collectives the first one recorded before this one's first (less than 0: after)."""
    return _shift_to(_mark(rank), _mark(first))


def _shift_to(marks: _Marks, first: _Marks) -> int:
    if marks.places is not None and first.places is not None:
        both = marks.places.join(first.places, on=_PLACE, nulls_equal=True)
        if both.height:
            return _find_most((both.get_column("nth_right") - both.get_column("nth")).to_numpy())
    return _find_shift_by_ends(marks, first)


def _find_shift_by_ends(marks: _Marks, first: _Marks) -> int:
    """By what the collectives are and when they end.

    Of the places at which both do the same, that at which the clocks agree best: unless there is
    one at which ends are far more evenly apart, as what lies between two is never twice the same.
    Then the clocks are further apart than one collective is from the next.
    """
    own, ends, kinds, others = marks.ends, first.ends, marks.kinds, first.kinds
    near = _find_most(_find_nearest(own, ends) - np.arange(min(len(own), _TRIED)))
    clocks: dict[int, float] = {}
    spreads: dict[int, float] = {}
    for shift in range(near - _AROUND, near + _AROUND + 1):
        begin, end = max(0, -shift), min(len(own), len(ends) - shift)
        if end - begin < max(_LEAST_SHARE * min(len(own), len(ends)), 1):
            continue
        if not np.array_equal(kinds[begin:end], others[begin + shift : end + shift]):
            continue
        apart = (ends[begin + shift : end + shift] - own[begin:end])[:_TRIED]
        clocks[shift] = abs(float(np.median(apart)))
        if end - begin >= _LEAST_ENDS:
            spreads[shift] = float(np.median(np.abs(apart - np.median(apart))))
    if not clocks:
        return near
    nearest = min(clocks, key=lambda shift: (clocks[shift], shift))
    best = min(spreads, key=lambda shift: (spreads[shift], clocks[shift]), default=nearest)
    is_better = nearest in spreads and _BETTER * spreads[best] < spreads[nearest]
    if not is_better and clocks[nearest] > _LEAST_SHARE * (max(ends) - min(ends)):
        return near  # they were recorded over different times
    return best if is_better else nearest


def _find_nearest(own: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The place of the end that is nearest to each of the first ones."""
    order = np.argsort(ends, kind="stable")
    ends, own = ends[order], own[:_TRIED]
    above = np.searchsorted(ends, own).clip(0, len(ends) - 1)
    below = np.maximum(above - 1, 0)
    is_below = np.abs(own - ends[below]) <= np.abs(ends[above] - own)
    found: np.ndarray = order[np.where(is_below, below, above)]
    return found


def _find_most(shifts: np.ndarray) -> int:
    values, counts = np.unique(shifts, return_counts=True)
    return int(values[np.argmax(counts)])


def _cut(rank: Rank, begin: int, end: int) -> Rank:
    """A rank's collectives from `begin` to before `end`; those before are not anchors any more.

    It begins then where the first of them was ready to, which is when the last one before it ended.
    """
    if (begin, end) == (0, rank.rows.height):
        return rank
    rows = rank.rows.slice(begin, end - begin).with_columns(
        pl.col("device_op_id", "anchor", "queued") - begin
    )
    rows = rows.with_columns(pl.col("anchor", "queued").clip(lower_bound=-1))
    lost = rows.get_column("queued") < 0
    rows = rows.with_columns(behind_ns=pl.when(lost).then(0).otherwise("behind_ns"))
    if not begin:
        begin_ns = rank.begin_ns
    else:
        ready = rows.filter(pl.col("anchor") < 0).select(pl.col("start_ns") - pl.col("segment_ns"))
        begin_ns = int(ready.to_series().min())  # type: ignore[arg-type]
    last = int(rows.get_column("end_ns").max())  # type: ignore[arg-type]
    if end == rank.rows.height:
        return replace(rank, rows=rows, begin_ns=begin_ns)
    return replace(rank, rows=rows, begin_ns=begin_ns, end_ns=last, tail_ns=0)
