"""Rows are in the order that Polars gives them, and not touched where they are in it already."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.order import sort_rows

_NUMBER = st.none() | st.integers(0, 3)
_BY = ["device", "start", "id"]


@given(st.lists(st.tuples(_NUMBER, _NUMBER, _NUMBER), max_size=8))
def test_the_order_is_that_of_a_stable_sort(rows: list[tuple[int | None, ...]]) -> None:
    frame = pl.DataFrame(rows, dict.fromkeys(_BY, pl.Int64), orient="row").with_row_index()
    assert sort_rows(frame, _BY).equals(frame.sort(_BY, maintain_order=True))


def test_rows_in_order_are_not_copied() -> None:
    frame = pl.DataFrame({"device": [0, 0, 1], "start": [5, 7, 3], "id": [2, 1, 0]})
    assert sort_rows(frame, _BY) is frame
    assert sort_rows(frame.reverse(), _BY) is not frame
