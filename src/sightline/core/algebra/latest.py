"""What came last before a moment: an as-of join that gives rows, and needs nothing sorted.

`DataFrame.join_asof` wants both sides in order of time. With the sorts that it needs, it takes
two to six times as long on rows in the order of recordings, and hardly longer on shuffled rows of
one group (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline._native import latest as native_latest
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.algebra.lookup import find_varying


def find_latest(
    queries: pl.DataFrame,
    at: str,
    events: pl.DataFrame,
    time: str,
    by: Sequence[str],
    ties: Sequence[str] = (),
) -> pl.Series:
    """For each query the row of `events` of its group that came last by the moment `at`, or null.

    Of events at one moment that with the highest `ties` counts, then the one further down. A row
    without a group (a null in `by`) or a moment finds nothing and is not found.
    """
    return _find_nearest(queries, at, events, time, by, ties, from_then_on=False)


def find_next(
    queries: pl.DataFrame,
    at: str,
    events: pl.DataFrame,
    time: str,
    by: Sequence[str],
    ties: Sequence[str] = (),
) -> pl.Series:
    """For each query the row of `events` of its group that comes first from `at` on, or null.

    Of events at one moment that with the highest `ties` counts, then the one further down.
    """
    return _find_nearest(queries, at, events, time, by, ties, from_then_on=True)


def _find_nearest(
    queries: pl.DataFrame,
    at: str,
    events: pl.DataFrame,
    time: str,
    by: Sequence[str],
    ties: Sequence[str],
    *,
    from_then_on: bool,
) -> pl.Series:
    if queries.is_empty() or events.is_empty():
        return pl.repeat(None, queries.height, dtype=pl.Int64, eager=True)
    by = find_varying(by, queries, events)
    asked = pack_numbers(_pick(queries, by, at))
    known = pack_numbers(_pick(events, by, time, ties))
    return unpack_columns(native_latest(known, asked, from_then_on)).to_series()


def _pick(
    frame: pl.DataFrame, by: Sequence[str], time: str, ties: Sequence[str] = ()
) -> pl.DataFrame:
    if time in by or time in ties:  # a time may be called as a column of the group is
        return frame.select(*by, pl.col(time).alias("_time"), *ties)
    return frame[[*by, time, *ties]]
