"""Rows by their ids, without a join: ids of one recording count up, so a place is a difference."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

import polars as pl

from sightline._native import first as native_first
from sightline._native import number as native_number
from sightline._native import number_texts as native_number_texts
from sightline._native import row_of as native_row_of
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.model.constants import find_null_columns, find_single_values

_FALSE = pl.Series([False])  # Polars makes rows of it without a query


def find_rows(ids: pl.Series, wanted: pl.Series) -> pl.Series:
    """For each wanted id the row of `ids` that holds it, or null; of equal ids the last row.

    A wanted null finds nothing, and a missing id is not found (native/passes/rows.cpp).
    """
    if ids.is_empty() or wanted.is_empty():
        return pl.repeat(None, wanted.len(), dtype=pl.Int64, eager=True)
    in_order = not ids.null_count() and ids.is_sorted()
    found = native_row_of(pack_numbers(ids.to_frame()), pack_numbers(wanted.to_frame()), in_order)
    return unpack_columns(found).to_series().alias(wanted.name)


def find_first_rows(
    known: pl.DataFrame, wanted: pl.DataFrame, number: str, by: Sequence[str]
) -> pl.Series:
    """For each wanted row the first row of `known` with its number and the same `by`, or null.

    A row in which one of them is null finds nothing and is not found. Numbers of a group should
    mostly count up, in whatever order (native/passes/rows.cpp).
    """
    if known.is_empty() or wanted.is_empty():
        return pl.repeat(None, wanted.height, dtype=pl.Int64, eager=True)
    columns_of = [*find_varying(by, known, wanted), number]
    return unpack_columns(
        native_first(
            pack_numbers(known.select(columns_of)), pack_numbers(wanted.select(columns_of))
        )
    ).to_series()


def take_rows(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """These rows of a frame, in this order; a row of nulls where the place is null."""
    if rows.null_count() == rows.len():  # no index for Polars
        return frame.select(pl.all().gather(rows))
    return frame[rows]  # asks no query, which takes longer than a few thousand rows do


def mark_rows(rows: pl.Series, height: int) -> pl.Series:
    """A mask of so many rows that holds in these, of which null is none."""
    nothing = _FALSE.new_from_index(0, height)
    return nothing.scatter(rows.drop_nulls() if rows.null_count() else rows, True)


def keep_rows(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """The rows of the mask; the frame itself where that is all of them, which costs no copy."""
    return frame if mask.all() else frame.filter(mask)


def keep_matching(frame: pl.DataFrame, known: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows whose `by` is that of a row of `known`, where nulls are equal."""
    on = find_varying(by, frame, known)
    if known.is_empty() or on:
        return frame.join(known, on=on or list(by), how="semi", nulls_equal=True)
    return frame


def add_up_rows(rows: pl.Series, values: pl.DataFrame, height: int) -> pl.DataFrame:
    """For each of `height` places the sums of the values that `rows` says are for it, else 0.

    Values for no place (null) are left out.
    """
    sums = values.with_columns(_place=rows).drop_nulls("_place").group_by("_place").sum()
    at = sums.get_column("_place")
    nothing = pl.repeat(0, height, dtype=pl.Int64, eager=True)
    return pl.DataFrame(
        nothing.clone().scatter(at, c.cast(pl.Int64)).alias(c.name)
        for c in sums.drop("_place").get_columns()
    )


def number_groups(frame: pl.DataFrame, by: Sequence[str]) -> tuple[pl.Series, pl.DataFrame]:
    """Each row's number of its combination of values, and the combinations as they first appear.

    Nulls are equal. Columns of one value, of which tables have many, are not looked at.
    """
    same = {*find_single_values(frame, by), *find_null_columns(frame.select(by))}
    vary = [c for c in by if c not in same]
    if not vary or frame.is_empty():
        return pl.repeat(0, frame.height, dtype=pl.Int64, eager=True), frame.select(by).head(1)
    keys = pl.DataFrame([_number_values(frame.get_column(c)) for c in vary])
    numbers, firsts = (unpack_columns(b).to_series() for b in native_number(pack_numbers(keys)))
    return numbers, frame.select(by)[firsts]


def _number_values(column: pl.Series) -> pl.Series:
    """The column itself where it holds whole numbers, else a number of each value."""
    if column.dtype.is_integer() or column.dtype == pl.Boolean:
        return column
    if column.dtype == pl.String:
        return _place_texts(column)[0].alias(column.name)
    if column.dtype == pl.Categorical:
        return column.to_physical()
    return column.rank("dense")


def _place_texts(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Each row's place, uint32 or null, among the column's different texts; and these."""
    if column.dtype != pl.String and not column.is_empty():  # categories: numbered, with gaps
        different = column.unique().drop_nulls()
        numbers = different.to_physical()
        count = int(numbers.max() or 0) + 1  # type: ignore[arg-type]
        nothing = pl.repeat(None, count, dtype=pl.UInt32, eager=True)
        place_of = nothing.scatter(numbers, pl.int_range(len(numbers), dtype=pl.UInt32, eager=True))
        return place_of.gather(column.to_physical()), different.cast(pl.String)
    places, texts = native_number_texts(column.cast(pl.String).to_frame().rechunk())
    return unpack_columns(places).to_series(), unpack_columns(texts).to_series()


def select_varying(by: Sequence[str], *frames: pl.DataFrame) -> list[str]:
    """Those of the columns in which the frames' rows differ, or one: a join by fewer is faster."""
    return find_varying(by, *frames) or list(by[:1])


def find_varying(by: Sequence[str], *frames: pl.DataFrame) -> list[str]:
    """Those of the columns in which the frames' rows differ.

    Columns with nulls are kept, as what they are compared to is another question.
    """
    same = [find_single_values(frame, by) for frame in frames if frame.height]
    return [
        c
        for c in by
        if any(c not in values for values in same) or len({values[c] for values in same}) > 1
    ]


# So many comparisons of all rows take less time than a look at each row's place.
_FEW_TEXTS = 4


class Texts:
    """The different texts of a column, or categories, to be asked for several patterns.

    `places` says which of the `different` ones each row has.
    """

    def __init__(self, column: pl.Series) -> None:
        # Going through places takes a tenth of going through texts.
        self.places, self.different = _place_texts(column)

    def match(self, pattern: str) -> pl.Series:
        """Which rows' text matches a pattern."""
        return self._mark(self.different.str.contains(pattern))

    def mark(self, chosen: pl.Series) -> pl.Series:
        """Which rows' text is one of these."""
        return self._mark(self.different.is_in(chosen.implode()))

    def _mark(self, matches: pl.Series) -> pl.Series:
        if not matches.any():  # of most recordings' names, most patterns
            return _FALSE.new_from_index(0, self.places.len())
        matching = matches.arg_true().to_list()
        if len(matching) <= _FEW_TEXTS:
            found: pl.Series = reduce(operator.or_, (self.places == at for at in matching))
        else:
            found = matches.gather(self.places)
        return found.fill_null(value=False) if found.null_count() else found


def match_names(frame: pl.DataFrame, pattern: str, column: str = "name") -> pl.Series:
    """Which rows' text matches a pattern: asked of each different text once."""
    return Texts(frame.get_column(column)).match(pattern)
