"""Tables that are made while they are written, part by part, so that they are never whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

ROWS_AT_ONCE = 1 << 16


def make_in_parts(rows: int, take: Callable[[int, int], pl.DataFrame]) -> pl.LazyFrame:
    """A table of `rows` rows, of which `take(start, count)` makes a part."""
    return _make_lazily(
        lambda: (take(start, ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE)),
        take(0, 1).schema,
    )


def make_of_frames(frames: Callable[[], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
    """A table of the frames, all with the first one's columns, that `frames` makes in order."""
    return _make_lazily(frames, next(iter(frames())).schema)


def _make_lazily(frames: Callable[[], Iterable[pl.DataFrame]], schema: pl.Schema) -> pl.LazyFrame:
    def parts(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        for part in frames():
            wanted = part.select(schema.names() if with_columns is None else with_columns)
            yield wanted if predicate is None else wanted.filter(predicate)

    return register_io_source(parts, schema=schema)
