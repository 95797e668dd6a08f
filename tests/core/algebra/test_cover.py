"""Cover of moments and what intervals have alone, against a bitmap of one cell per ns."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.cover import measure_alone, measure_cover_before, measure_run_before

SIZE = 24
Interval = tuple[int, int, int]  # group, start, end; may be empty
moments = st.integers(0, SIZE)
intervals = st.lists(
    st.tuples(st.integers(0, 1), moments, moments).map(lambda t: (t[0], *sorted(t[1:]))),
    max_size=12,
)


def frame(rows: list[Interval]) -> pl.DataFrame:
    types = {"g": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame(rows, schema=types, orient="row")


@given(intervals, st.lists(st.integers(-2, SIZE + 2), max_size=6))
def test_cover_before_a_moment_is_the_painted_cells_before_it(rows, asked):
    cells = {cell for _, start, end in rows for cell in range(start, end)}
    want = [sum(cell < moment for cell in cells) for moment in asked]
    assert measure_cover_before(frame(rows), pl.Series(asked, dtype=pl.Int64)).to_list() == want


@given(intervals, st.lists(st.integers(-2, SIZE + 2), max_size=6))
def test_run_before_a_moment_counts_each_interval(rows, asked):
    want = [sum(min(end, t) - min(start, t) for _, start, end in rows) for t in asked]
    moved = frame(rows).with_columns(pl.col("start_ns", "end_ns") + 2**62)
    at = pl.Series([t + 2**62 for t in asked], dtype=pl.Int64)
    assert measure_run_before(moved, at).to_list() == want


@given(intervals)
def test_an_interval_is_alone_where_no_other_of_its_group_is(rows):
    want = [
        sum(
            all(h != g or j == i or not a <= cell < b for j, (h, a, b) in enumerate(rows))
            for cell in range(start, end)
        )
        for i, (g, start, end) in enumerate(rows)
    ]
    assert measure_alone(frame(rows), ["g"]).to_list() == want
