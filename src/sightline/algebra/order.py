"""Rows in order of group and time, by a sort of one number.

That takes a tenth of the time of a sort by several columns, so what tells groups apart is made part
of the number: see host_tree and lanes, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

# Keys of group and time stay below it, so that no sum of two leaves the range of int64.
KEY_LIMIT = 2**62


def by_start(keys: pl.DataFrame) -> pl.DataFrame:
    """The rows (start, end, and `order` if there is one) sorted, with their place before in `row`.

    By start; of those with equal start the longest first, then by `order`, then as they came.
    """
    keys = keys.with_columns(row=pl.int_range(pl.len(), dtype=pl.UInt32))
    if not keys.get_column("start").is_sorted():
        keys = keys[keys.get_column("start").arg_sort()]
    by = [c for c in ("start", "end", "order", "row") if c in keys.columns]
    return _ties_in_order(keys, by, descending=["end"])


def sorted_by(frame: pl.DataFrame, groups: Sequence[str], keys: Sequence[str]) -> pl.DataFrame:
    """The same as `frame.sort(*groups, *keys, maintain_order=True)`, where few rows of a group have

    the first key, an integer, in common.
    """
    first, *others = keys
    number = _one_number(frame, groups, first)
    if number is None:
        return frame.sort(*groups, *keys, maintain_order=True)
    row = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias("_row")
    rows = pl.DataFrame([number.alias("_key"), row, *frame.select(others).get_columns()])
    if not number.is_sorted():
        rows = rows[number.arg_sort()]
    order = _ties_in_order(rows, ["_key", *others, "_row"]).get_column("_row")
    return frame if order.is_sorted() else frame[order]


def _one_number(frame: pl.DataFrame, groups: Sequence[str], first: str) -> pl.Series | None:
    """Group and key in one, or None where that does not fit, or some have no key."""
    key = frame.get_column(first)
    low, high = key.min(), key.max()
    if key.null_count() or not isinstance(low, int) or not isinstance(high, int):
        return None
    number, size = _group_numbers(frame, groups)
    if number is None or size * (high - low + 1) >= KEY_LIMIT:
        return None
    return number * (high - low + 1) + (key - low)


def _group_numbers(frame: pl.DataFrame, groups: Sequence[str]) -> tuple[pl.Series | None, int]:
    """A number for each row's group, in order of the groups' columns (nulls first), below the

    second answer; None where there may be too many of them for a number.
    """
    size, number = 1, pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    for column in frame.select(groups).get_columns():
        known = column.drop_nulls().unique().sort()
        if known.len() == 1 and not column.null_count():
            continue
        place = (known.search_sorted(column).cast(pl.Int64) + 1).set(column.is_null(), 0)
        size *= known.len() + 1
        if size >= KEY_LIMIT:
            return None, size
        number = number * (known.len() + 1) + place
    return number, size


def _ties_in_order(
    rows: pl.DataFrame, by: Sequence[str], descending: Sequence[str] = ()
) -> pl.DataFrame:
    """Rows in order of the first column of `by`, put in order of the others where it is equal."""
    same = pl.col(by[0]) == pl.col(by[0]).shift(1)
    tied = rows.select((same | same.shift(-1)).fill_null(value=False)).to_series()
    if not tied.any():
        return rows
    # Few rows share it: sort these and put them back in the same places.
    ordered = rows.filter(tied).sort(by, descending=[c in descending for c in by])
    position = pl.concat([(~tied).arg_true(), tied.arg_true()])
    return pl.concat([rows.filter(~tied), ordered])[position.arg_sort()]
