"""Columns on their way into compiled code and back."""

from __future__ import annotations

import polars as pl

from sightline._native import Batch
from sightline.core.model.constants import find_null_columns

# Stands for a missing number: compiled code reads columns without nulls.
_MISSING = -(2**63)


def pack_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of whole numbers as compiled code reads them: in one piece, without nulls."""
    # Asked first: each of these is a query of its own, which takes longer than few rows do.
    if any(dtype != pl.Int64 for dtype in frame.dtypes):
        frame = frame.cast(pl.Int64)
    if any(column.null_count() for column in frame.get_columns()):
        frame = frame.fill_null(_MISSING)
    return frame.rechunk()


def pack_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns as the passes over graphs read them: int64 and uint32 as they lie, with nulls.

    One that is null throughout is given without rows.
    """
    nothing = find_null_columns(frame)
    others = [
        c
        for c, dtype in frame.schema.items()
        if c not in nothing and dtype not in (pl.Int64, pl.UInt32)
    ]
    if nothing or others:
        frame = frame.with_columns(
            pl.col(others).cast(pl.Int64), *(pl.lit(None, pl.Null).alias(c) for c in nothing)
        )
    return frame.rechunk()


def unpack_columns(batch: Batch) -> pl.DataFrame:
    """The columns that compiled code answers with."""
    found = pl.from_arrow(batch)
    assert isinstance(found, pl.Series)
    return found.struct.unnest()


def unpack_apart(batch: Batch) -> pl.DataFrame:
    """The columns of a batch, each freed when nobody has it any more, not when nobody has any."""
    return pl.concat([unpack_columns(column) for column in batch.split()], how="horizontal")


def unpack_varying(
    columns: list[str], batch: Batch, constants: dict[int, int | None]
) -> pl.DataFrame:
    """Columns by their names, from those that vary and the values of those that do not.

    Both name a column by its place. One value throughout is kept as that one: it takes no memory.
    """
    if len(constants) == len(columns):
        varying = pl.DataFrame({"": pl.zeros(batch.rows, pl.Int64, eager=True)})
    else:
        varying = unpack_columns(batch).rename(lambda place: columns[int(place)])
    same = [pl.lit(value, pl.Int64).alias(columns[i]) for i, value in constants.items()]
    return varying.with_columns(same).select(columns)
