"""Interval algebra against a bitmap: one cell per ns, painted and counted."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sightline.core.algebra.cover import measure_alone
from sightline.core.algebra.intervals import (
    clip_intervals,
    count_open_at,
    find_gaps,
    measure_cover,
    measure_cover_between,
    measure_cover_until,
    merge_intervals,
    partition_windows,
)

SIZE = 24  # cells of the bitmap
CLASSES = ("compute", "exposed_comm", "exposed_copy")
BY = ["g"]

Interval = tuple[int, int, int]  # group, start, end; may be empty
moments = st.integers(0, SIZE)
intervals = st.lists(
    st.tuples(st.integers(0, 1), moments, moments).map(lambda t: (t[0], *sorted(t[1:]))),
    max_size=12,
)
classed = st.lists(
    st.tuples(st.integers(0, 1), moments, moments, st.sampled_from(CLASSES)).map(
        lambda t: (t[0], *sorted(t[1:3]), t[3])
    ),
    max_size=12,
)
windows = st.tuples(moments, moments).map(sorted).filter(lambda w: w[0] < w[1])


def frame(rows: list[Any], *more: str) -> pl.DataFrame:
    types = {"g": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame(
        rows, schema={**types, **dict.fromkeys(more, pl.String)}, orient="row", strict=True
    )


def window_frame(window: tuple[int, int]) -> pl.DataFrame:
    """The same window for both groups."""
    return pl.DataFrame(
        {"g": [0, 1], "window_start_ns": [window[0]] * 2, "window_end_ns": [window[1]] * 2}
    )


def painted(rows: list[Any], group: int) -> list[bool]:
    cells = [False] * SIZE
    for g, start, end, *_ in rows:
        if g == group:
            cells[start:end] = [True] * (end - start)
    return cells


def runs(cells: list[bool], value: bool, first: int = 0) -> list[tuple[int, int]]:
    """Stretches of cells with the value, as [start, end) from `first` on."""
    found: list[tuple[int, int]] = []
    for at, cell in enumerate(cells):
        if cell is not value:
            continue
        if found and found[-1][1] == first + at:
            found[-1] = (found[-1][0], first + at + 1)
        else:
            found.append((first + at, first + at + 1))
    return found


@given(intervals)
def test_merge_gives_the_painted_stretches(rows: list[Interval]) -> None:
    long = [r for r in rows if r[1] < r[2]]
    merged = merge_intervals(frame(long), BY)
    want = [(g, *run) for g in (0, 1) for run in runs(painted(rows, g), True)]
    assert merged.rows() == want


@given(intervals)
def test_merge_covers_the_same_with_empty_intervals(rows: list[Interval]) -> None:
    merged = merge_intervals(frame(rows), BY).rows()
    assert merged == sorted(merged)
    for g in (0, 1):
        assert painted(merged, g) == painted(rows, g)


@given(intervals)
def test_covered_counts_each_moment_once(rows: list[Interval]) -> None:
    got = dict(measure_cover(frame(rows), BY).rows())
    assert {g: n for g, n in got.items() if n} == {
        g: sum(painted(rows, g)) for g in (0, 1) if any(painted(rows, g))
    }


@given(intervals, windows)
def test_clip_keeps_what_lies_in_the_window(rows: list[Interval], window: tuple[int, int]) -> None:
    got = clip_intervals(frame(rows), window_frame(window), BY).rows()
    want = [(g, max(s, window[0]), min(e, window[1])) for g, s, e in rows]
    assert sorted(got) == sorted((g, s, e) for g, s, e in want if s < e)


@given(intervals, windows)
def test_clip_keeps_empty_intervals_on_request(
    rows: list[Interval], window: tuple[int, int]
) -> None:
    got = clip_intervals(frame(rows), window_frame(window), BY, keep_empty=True).rows()
    want = [(g, max(s, window[0]), min(e, window[1])) for g, s, e in rows]
    assert sorted(got) == sorted((g, s, e) for g, s, e in want if s <= e)


@given(intervals, windows)
@example([], (0, SIZE))
def test_gaps_are_the_unpainted_stretches(rows: list[Interval], window: tuple[int, int]) -> None:
    got = find_gaps(frame(rows), window_frame(window), BY).rows()
    start, end = window
    want = [(g, *run) for g in (0, 1) for run in runs(painted(rows, g)[start:end], False, start)]
    assert got == want


def owners(rows: list[Any], group: int) -> list[str]:
    """The owner of each cell: the first class that is active in it."""
    active = [
        {k for g, start, end, k in rows if g == group and start <= t < end} for t in range(SIZE)
    ]
    return [next((c for c in CLASSES if c in now), "idle") for now in active]


@given(classed, windows)
def test_partition_counts_each_cell_for_its_first_class(
    rows: list[Any], window: tuple[int, int]
) -> None:
    got = partition_windows(frame(rows, "class_"), window_frame(window), BY, CLASSES).to_dicts()
    for group, row in enumerate(got):
        cells = owners(rows, group)[window[0] : window[1]]
        want = {f"{owner}_ns": cells.count(owner) for owner in (*CLASSES, "idle")}
        assert row == {"g": group, "window_ns": window[1] - window[0], **want}
        assert sum(want.values()) == row["window_ns"]


@given(
    intervals,
    st.lists(st.tuples(st.sampled_from([0, 1, None]), st.integers(0, SIZE)), max_size=8),
    st.sampled_from(["t", "start_ns", "end_ns"]),
)
def test_covered_until_counts_the_cells_before(
    rows: list[Interval], queries: list[tuple[int | None, int]], at: str
) -> None:
    asked = pl.DataFrame(queries, schema={"g": pl.Int64, at: pl.Int64}, orient="row")
    got = measure_cover_until(asked, at, frame(rows), BY).to_list()
    assert got == [0 if g is None else sum(painted(rows, g)[:t]) for g, t in queries]


@given(
    intervals,
    st.lists(
        st.tuples(st.sampled_from([0, 1, None]), st.integers(0, SIZE), st.integers(0, SIZE)),
        max_size=8,
    ),
)
def test_covered_between_counts_the_cells_from_one_to_the_other(
    rows: list[Interval], queries: list[tuple[int | None, int, int]]
) -> None:
    types = {"g": pl.Int64, "since": pl.Int64, "until": pl.Int64}
    asked = pl.DataFrame(queries, schema=types, orient="row")
    got = measure_cover_between(asked, "since", "until", frame(rows), BY).to_list()
    cells = [(painted(rows, g) if g is not None else [], a, b) for g, a, b in queries]
    assert got == [sum(each[:b]) - sum(each[:a]) for each, a, b in cells]


@pytest.mark.parametrize("seed", [None, 1])
def test_covered_between_in_whatever_order(seed: int | None) -> None:
    """Rows in no order are sorted by digits first, those in order are taken as they come.

    Asked once more of one group alone, whose rows take another way: missing ones and far times.
    """
    rng = random.Random(2)
    starts = sorted(rng.randrange(-(2**61), 2**61) for _ in range(500))
    rows = [(i % 3, start, start + rng.randrange(2**54)) for i, start in enumerate(starts)]
    queries = [(g, start, rng.choice([end, None])) for g, start, end in rows]
    if seed is not None:
        random.Random(seed).shuffle(rows)
        random.Random(seed + 1).shuffle(queries)
    types = {"g": pl.Int64, "since": pl.Int64, "until": pl.Int64}
    asked = pl.DataFrame(queries, schema=types, orient="row")

    def cover(group: int, moment: int | None) -> int:
        if moment is None:
            return 0
        total, reached = 0, -(2**63)
        for _, start, end in sorted(row for row in rows if row[0] == group):
            total += max(0, min(end, moment) - max(start, reached))
            reached = max(reached, end)
        return total

    wanted = [cover(g, until) - cover(g, since) for g, since, until in queries]
    assert measure_cover_between(asked, "since", "until", frame(rows), BY).to_list() == wanted
    one = asked.filter(g=0)
    got = measure_cover_between(one, "since", "until", frame([r for r in rows if r[0] == 0]), BY)
    assert got.to_list() == [w for w, (g, _, _) in zip(wanted, queries, strict=True) if g == 0]


@given(intervals)
def test_depth_counts_who_entered_and_has_not_left(rows: list[Interval]) -> None:
    """A call that enters at [start and leaves at end): depth is how many others are inside."""
    got = count_open_at(frame(rows), BY, "start_ns", "end_ns").to_list()
    want = []
    for i, (g, start, _) in enumerate(rows):
        others = [(j, s, e) for j, (h, s, e) in enumerate(rows) if h == g and j != i]
        want.append(sum(e > start and (s < start or (s == start and j < i)) for j, s, e in others))
    assert got == want


@given(intervals)
@example([(0, 2, 9), (0, 2, 9), (0, 9, 9), (0, 9, 12)])
def test_alone_is_where_one_cell_is_painted_once(rows: list[Interval]) -> None:
    painters = [[0] * SIZE, [0] * SIZE]
    for group, start, end in rows:
        for cell in range(start, end):
            painters[group][cell] += 1
    wanted = [sum(painters[g][c] == 1 for c in range(a, b)) for g, a, b in rows]
    assert measure_alone(frame(rows), BY).to_list() == wanted
