"""Columns of one value. Polars keeps one that was set so as that value, not as millions of rows.

`DataFrame.get_column` makes rows of it, expressions do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

# Rows that a look at each takes less time than the queries which leave a column of one value alone.
_FEW_ROWS = 10_000
_LOOKS = 16


def find_null_columns(frame: pl.DataFrame) -> list[str]:
    """The columns that are null throughout."""
    return [s.name for s in frame.get_columns() if s.null_count() == frame.height]


def keep_single_values(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its columns of one value kept as that value."""
    nothing = [pl.lit(None, frame.schema[c]).alias(c) for c in find_null_columns(frame)]
    same = find_constants(frame)
    values = [pl.lit(value, frame.schema[c]).alias(c) for c, value in same.items()]
    return frame.with_columns(*nothing, *values) if frame.height else frame


def find_single_values(frame: pl.DataFrame, among: Iterable[str]) -> dict[str, Any]:
    """Those of the columns that have one value throughout, and are never null, with the value."""
    if frame.height > _FEW_ROWS:
        return find_constants(frame, among)
    found = {}
    for name in among if frame.height else ():
        column = frame.get_column(name)
        if not column.null_count() and (column == column[0]).all():
            found[name] = column[0]
    return found


def find_constants(frame: pl.DataFrame, among: Iterable[str] | None = None) -> dict[str, Any]:
    """The columns that have one value throughout, and are never null, with the value."""
    among = frame.columns if among is None else list(among)
    if frame.is_empty() or not among:
        return {}
    looked_at = frame[among]
    first = looked_at.row(0, named=True)
    # Most columns that vary do so among a few rows; to look at those takes no query.
    places = range(0, frame.height, max(1, frame.height // _LOOKS))
    few = zip(*(looked_at.row(place) for place in (*places, -1)), strict=True)
    likely = [
        c
        for c, values in zip(among, few, strict=True)
        if first[c] is not None and all(value == first[c] for value in values)
    ]
    if not likely:
        return {}
    same = frame.select((pl.col(c) == first[c]).fill_null(value=False).all() for c in likely)
    return {c: first[c] for c, yes in same.row(0, named=True).items() if yes}
