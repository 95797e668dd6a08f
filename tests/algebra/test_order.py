"""Sorting by one number gives what sorting by the columns gives."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.algebra.order import sorted_by

SMALL = st.none() | st.integers(-3, 3)
ROW = st.tuples(
    SMALL, st.none() | st.sampled_from(["", "a", "é"]), st.integers(-5, 5), st.integers(0, 2)
)
SCHEMA = {"rank": pl.Int64, "name": pl.String, "t": pl.Int64, "turn": pl.Int8}


@pytest.mark.parametrize("groups", [(), ("rank",), ("rank", "name"), ("name", "rank")])
@given(rows=st.lists(ROW))
def test_as_the_columns_sort(groups, rows):
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row").with_row_index("row")
    for keys in (("t",), ("t", "turn")):
        wanted = frame.sort(*groups, *keys, maintain_order=True)
        assert sorted_by(frame, groups, keys).equals(wanted)


@pytest.mark.parametrize("t", [[2**62, -(2**62), 0], [3, None, 1]])
def test_what_fits_in_no_number_is_sorted_all_the_same(t):
    frame = pl.DataFrame({"rank": [1, 0, 1], "t": t})
    wanted = frame.sort("rank", "t", maintain_order=True)
    assert sorted_by(frame, ["rank"], ["t"]).equals(wanted)
