"""Rows by ids against a dictionary."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.lookup import (
    Texts,
    add_up_rows,
    find_first_rows,
    find_rows,
    keep_matching,
    match_names,
    number_groups,
    select_varying,
    take_rows,
)

STRETCH = 1 << 40
ids = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 30)).map(lambda t: t[0] * STRETCH + t[1]),
    unique=True,
    max_size=20,
)
wanted = st.lists(
    st.none()
    | st.tuples(st.integers(-1, 4), st.integers(-3, 33)).map(lambda t: t[0] * STRETCH + t[1]),
    max_size=20,
)


@given(ids, wanted, st.booleans())
def test_a_row_is_found_as_a_dictionary_finds_it(known, asked, in_order):
    known = sorted(known) if in_order else known
    at = {value: row for row, value in enumerate(known)}
    want = [at.get(value) for value in asked]
    series, questions = (pl.Series(v, dtype=pl.Int64) for v in (known, asked))
    assert find_rows(series, questions).to_list() == want


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("stretches", [1, 3])
def test_rows_that_are_far_from_each_other_are_found_too(stretches: int, in_order: bool) -> None:
    """Where questions leap for the thousandth time, a place is made for each id, unless they lie
    too far apart for that; of equal ids it is the last one's, as before."""
    known = pl.concat(
        [pl.int_range(0, 9_000, 3, eager=True) + STRETCH * part for part in range(stretches)]
    )
    known = pl.concat([known, known.gather([5, 2_000, 2_999])])
    known = known.sort() if in_order else known.shuffle(seed=2)
    asked = pl.int_range(-9, 9_020, eager=True)
    asked = pl.concat([asked + STRETCH * part for part in range(stretches)]).shuffle(seed=1)
    at = {value: row for row, value in enumerate(known)}
    assert find_rows(known, asked).to_list() == [at.get(value) for value in asked]


def test_missing_ids_are_not_found_and_find_nothing() -> None:
    known, asked = pl.Series([7, None, 5, None]), pl.Series([None, 5, 7, 6])
    assert find_rows(known, asked).to_list() == [None, 2, 0, None]


def test_nothing_is_found_where_all_ids_are_missing() -> None:
    """Of a damaged table; the process once ended there."""
    known, asked = pl.Series([None, None], dtype=pl.Int64), pl.Series([0, 5, None])
    assert find_rows(known, asked).to_list() == [None, None, None]


@given(ids)
def test_rows_are_taken_with_nulls_where_there_is_none(known):
    frame = pl.DataFrame({"id": pl.Series(known, dtype=pl.Int64)})
    rows = find_rows(frame["id"], pl.Series([*known, -5], dtype=pl.Int64))
    assert take_rows(frame, rows).get_column("id").to_list() == [*known, None]


def test_names_are_matched_and_missing_ones_are_not():
    frame = pl.DataFrame({"name": ["cudaFree", None, "gemm", "cudaFree"]})
    assert match_names(frame, "^cuda").to_list() == [True, False, False, True]
    assert match_names(frame, "nothing").to_list() == [False] * 4


TEXTS = st.lists(
    st.none()
    | st.text(max_size=14)
    | st.sampled_from(["k" * 12, "k" * 13, "k" * 13 + "1", "ä" * 300]),
    max_size=30,
)


@given(TEXTS, st.integers(0, 3), st.sampled_from([pl.String, pl.Categorical]))
def test_each_row_has_the_place_of_its_text(rows, first, dtype):
    """Of texts within their views and outside of them, in several pieces, and of a slice."""
    column = pl.concat([pl.Series(part, dtype=pl.String) for part in (rows, rows)])
    texts = Texts(column.cast(dtype).slice(first))
    assert None not in texts.different
    assert texts.different.is_unique().all()
    found = texts.different.gather(texts.places) if texts.places.len() else pl.Series([])
    assert found.to_list() == [*rows, *rows][first:]
    assert texts.match("k").to_list() == [bool(t and "k" in t) for t in [*rows, *rows][first:]]


def test_many_texts_have_their_places() -> None:
    """More than are remembered by their views: those are looked up by what they say."""
    rows = [f"kernel {'x' * (number % 40)} {number}" for number in range(5_000)]
    column = pl.Series([*rows, *reversed(rows)])
    texts = Texts(column)
    assert texts.different.to_list() == rows
    assert texts.places.to_list() == [*range(5_000), *reversed(range(5_000))]
    assert texts.match("x 7").to_list() == ["x 7" in text for text in column]


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-1, 1),
        st.none() | st.sampled_from(["", "a", "b"]),
        st.integers(0, 1),
        st.just(7),
        st.none() | st.sampled_from(["x", "y"]),
    ),
    max_size=20,
)


@given(ROWS)
def test_rows_are_numbered_as_a_dictionary_numbers_them(rows):
    types = {"a": pl.Int64, "b": pl.String, "c": pl.Int64, "d": pl.Int64, "e": pl.String}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    place: dict[object, int] = {}
    want = [place.setdefault(row, len(place)) for row in rows]
    number, known = number_groups(frame, list(types))
    assert number.to_list() == want
    assert known.rows() == list(place)


@given(st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(-9, 9)), max_size=20))
def test_values_are_added_up_where_they_belong(pairs):
    want = [sum(value for place, value in pairs if place == at) for at in range(6)]
    rows = pl.Series([place for place, _ in pairs], dtype=pl.Int64)
    values = pl.DataFrame({"v": [value for _, value in pairs]}, schema={"v": pl.Int64})
    found = add_up_rows(rows, values.with_columns(n=pl.lit(1, pl.Int64)), 6)
    assert found.get_column("v").to_list() == want
    assert found.get_column("n").sum() == rows.count()


def test_columns_that_tell_rows_apart():
    left = pl.DataFrame({"rank": [0, 0], "pid": [1, 1], "tid": [1, 2]})
    right = pl.DataFrame({"rank": [0], "pid": [2], "tid": [1]})
    assert select_varying(["rank", "pid", "tid"], left) == ["tid"]
    assert select_varying(["rank", "pid", "tid"], left, right) == ["pid", "tid"]
    assert select_varying(["rank", "pid", "tid"], right, right.clear()) == ["rank"]


parts = st.none() | st.integers(0, 2)
far = st.none() | st.sampled_from([*range(-3, 6), -(2**63) + 1, 2**62, 2**63 - 1])
numbered_rows = st.lists(st.tuples(parts, parts, far), max_size=30)


@given(numbered_rows, numbered_rows, st.integers(0, 2))
def test_the_first_row_with_a_number(known: list[Any], wanted: list[Any], width: int) -> None:
    schema = {"a": pl.Int64, "b": pl.Int64, "n": pl.Int64}
    frames = [pl.DataFrame(rows, schema=schema, orient="row") for rows in (known, wanted)]
    by = ["a", "b"][:width]
    first: dict[Any, int] = {}
    for place, row in enumerate(known):
        first.setdefault((*row[:width], row[2]), place)
    plainly = [
        None if None in (*r[:width], r[2]) else first.get((*r[:width], r[2])) for r in wanted
    ]
    assert find_first_rows(*frames, "n", by).to_list() == plainly


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_categories_are_numbered_as_texts_are(dtype: Any) -> None:
    names = pl.DataFrame({"name": ["b", None, "a", "b"]}, schema={"name": dtype})
    numbers, different = number_groups(names, ["name"])
    assert numbers.to_list() == [0, 1, 2, 0]
    assert different["name"].to_list() == ["b", None, "a"]


def test_rows_whose_text_is_one_of_some() -> None:
    names = Texts(pl.Series(["b", None, "a", "c"]))
    assert names.mark(pl.Series(["c", "b"])).to_list() == [True, False, False, True]
    assert names.mark(pl.Series([], dtype=pl.String)).to_list() == [False] * 4


_PAIR = st.tuples(st.none() | st.integers(0, 1), st.integers(0, 1))


@given(st.lists(_PAIR), st.lists(_PAIR))
def test_rows_that_match_are_those_of_a_semi_join(
    rows: list[tuple[int | None, int]], others: list[tuple[int | None, int]]
) -> None:
    frame, known = (
        pl.DataFrame(each, {"pid": pl.Int64, "tid": pl.Int64}, orient="row")
        for each in (rows, others)
    )
    expected = [row for row in rows if row in others]
    assert keep_matching(frame, known, ["pid", "tid"]).rows() == expected
