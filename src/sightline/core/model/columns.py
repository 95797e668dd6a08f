"""Column types that say the unit and the join, and the tables made of them.

A declaration is data: the reference in docs/ is generated from it, the store checks against it,
and joining recordings into one run knows from it which columns are ids.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import polars as pl

# Any Polars type, as a class (pl.Int64) or an instance (pl.List(pl.String)).
DType = Any

FrameT = TypeVar("FrameT", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Column:
    """One column: its type, its unit, what it joins to, and one sentence."""

    name: str
    dtype: DType
    doc: str
    unit: str | None = None
    joins: str | None = None  # "table.column" that this id points to
    is_id: bool = False
    required: bool = False  # null is not allowed
    unit_in: str | None = None  # the column that has the unit, row by row
    moment: bool = False  # a time on the run's clock, which another clock moves; no length


@dataclass(frozen=True)
class Table:
    """A declared table: one row per `row`."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> dict[str, DType]:
        """Column names and Polars types, in order."""
        return {c.name: c.dtype for c in self.columns}

    @property
    def ids(self) -> list[str]:
        """Columns whose values are unique in one recording only, until shifted."""
        return [c.name for c in self.columns if c.is_id or c.joins is not None]

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that a store's file holds: what a part adds on reading is left out."""
        return tuple(c for c in self.columns if c.name not in ("rank", "recording_id"))

    @property
    def moments(self) -> list[str]:
        """Columns that are times on the run's clock."""
        return [c.name for c in self.columns if c.moment]


def ident(name: str, doc: str) -> Column:
    """The table's own key, unique in a run."""
    return Column(name, pl.Int64, doc, is_id=True, required=True)


def join(name: str, to: str, doc: str) -> Column:
    """An id of another table's row, written 'table.column'."""
    return Column(name, pl.Int64, doc, joins=to)


def time(name: str, doc: str, *, required: bool = True) -> Column:
    """A moment, in ns on the run's clock."""
    return Column(name, pl.Int64, doc, unit="ns", required=required, moment=True)


def duration(name: str, doc: str) -> Column:
    """A length of time in ns."""
    return Column(name, pl.Int64, doc, unit="ns")


def size(name: str, doc: str) -> Column:
    """A size in bytes."""
    return Column(name, pl.Int64, doc, unit="bytes")


def rate(name: str, doc: str) -> Column:
    """A rate in decimal gigabytes (10⁹ bytes) per second."""
    return Column(name, pl.Float64, doc, unit="GB/s")


def pct(name: str, doc: str) -> Column:
    """A share from 0 to 100."""
    return Column(name, pl.Float64, doc, unit="%")


def number(name: str, doc: str, unit: str | None = None, *, required: bool = False) -> Column:
    """An integer: a count, an index, a vendor's id."""
    return Column(name, pl.Int64, doc, unit=unit, required=required)


def real(name: str, doc: str, unit: str | None = None) -> Column:
    """A float."""
    return Column(name, pl.Float64, doc, unit=unit)


def text(name: str, doc: str, *, required: bool = False) -> Column:
    """A text; repeated texts are dictionary-encoded in the store."""
    return Column(name, pl.String, doc, required=required)


def flag(name: str, doc: str) -> Column:
    """True, false, or not known."""
    return Column(name, pl.Boolean, doc)


def numbers(name: str, doc: str, unit: str | None = None) -> Column:
    """A list of integers."""
    return Column(name, pl.List(pl.Int64), doc, unit=unit)


RANK = Column("rank", pl.Int64, "rank of the process that was recorded", required=True)
RECORDING = Column(
    "recording_id",
    pl.Int64,
    "the file that the row came from",
    joins="recordings.recording_id",
    required=True,
)


def make_empty(columns: tuple[Column, ...]) -> pl.DataFrame:
    """A frame of these columns with no rows."""
    return pl.DataFrame(schema={c.name: c.dtype for c in columns})


def conform_columns(
    frame: FrameT, columns: tuple[Column, ...], kept: Container[str] | None = None
) -> FrameT:
    """The frame with exactly these columns, in order and type; absent ones are null.

    Where only some are `kept`, with those. A column that is not declared is a mistake of the
    caller, not of the recording.
    """
    present = frame.collect_schema().names()
    unknown = set(present) - {c.name for c in columns}
    if unknown:
        raise AssertionError(f"undeclared columns: {sorted(unknown)}")
    return frame.select(
        _take_column(c.name, c.dtype, c.name in present)
        for c in columns
        if kept is None or c.name in kept
    )


# Making them anew takes a tenth of reading a short recording.
@lru_cache(maxsize=4096)
def _take_column(name: str, dtype: DType, is_present: bool) -> pl.Expr:
    return (pl.col(name) if is_present else pl.lit(None)).cast(dtype).alias(name)


@lru_cache(maxsize=4096)
def write_constant(value: int | str | None, dtype: DType, name: str) -> pl.Expr:
    """A column of one value; the same expression for the same column."""
    return pl.lit(value, dtype).alias(name)
