"""An export's tables as frames, whatever file they lie in: by name, as far as they are intact."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.constants import find_constants
from sightline.core.model.declare import Quality
from sightline.formats._sqlite import SqliteFile

_VERSIONED = re.compile(r"^(.+)_V(\d+)$")  # some exports name a table CUPTI_..._KERNEL_V2


class Database(ABC):
    """An export's tables, read-only: what the readers of single tables ask."""

    lost: dict[str, str]  # table to why it could not be read in full
    malformed: dict[str, int]  # table to how many of its values are not integers
    cut_off: bool  # the file ends early
    form: str  # what it is, for errors
    loss: str  # what became of a table that is lost
    again: str  # how to make the file anew
    cut_loss = "its last tables are missing"  # what a file that ends early lacks

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    @property
    @abstractmethod
    def tables(self) -> list[str]:
        """Names of all tables, without version suffix, in order."""

    @abstractmethod
    def columns(self, table: str) -> Iterable[str]:
        """Names of a table's columns; none where there is no such table."""

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table is there and has these columns."""
        have = set(self.columns(table))
        return bool(have) and have.issuperset(columns)

    @abstractmethod
    def is_integer(self, table: str, column: str) -> bool:
        """Whether a column is declared as an integer."""

    @abstractmethod
    def ints(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Integer columns of a table; those that it lacks are null.

        A table that lacks its first wanted column, or is absent, has no rows.
        """

    def take_ints(self, table: str, wanted: Sequence[str], narrow: Sequence[str]) -> pl.DataFrame:
        """As `ints`, of a large table that is read but once: it may be gone afterwards.

        Columns in `narrow`, which are only passed on or looked up, have the narrowest type that
        holds them: of millions of rows they would be most of the memory.
        """
        frame = self.ints(table, wanted)
        same = find_constants(frame, narrow)
        return frame.with_columns(
            frame.get_column(c).shrink_dtype() for c in narrow if c not in same
        )

    @abstractmethod
    def rows(
        self, table: str, wanted: Sequence[str], where: Mapping[str, int] | None = None
    ) -> pl.DataFrame:
        """Columns of any type; for small tables and for texts.

        `where`: only rows with these values in these columns; none where such a column is missing.
        """

    @abstractmethod
    def texts(self, table: str, column: str) -> pl.DataFrame:
        """rowid and the text of the rows that have one, in columns `rowid` and `text`."""

    @abstractmethod
    def rowids(self, table: str) -> pl.Series:
        """The rows' own numbers, in the order of `ints`."""

    @abstractmethod
    def blobs(self, table: str, column: str) -> Iterator[tuple[int, bytes]]:
        """rowid and bytes of the rows that have some; also where they were written as text."""

    @abstractmethod
    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is absent or unreadable."""

    @property
    def limits(self) -> list[Quality]:
        """What of the recording could not be read, other than lost tables."""
        return []

    @cached_property
    def strings(self) -> pl.DataFrame:
        """The string table: id and value."""
        frame = self.rows("StringIds", ["id", "value"])
        return frame.select(
            pl.col("id").cast(pl.Int64, strict=False), pl.col("value").cast(pl.String)
        ).unique("id", keep="first")

    def named(self, frame: pl.DataFrame, **texts: str) -> pl.DataFrame:
        """The frame with string ids replaced: `named(frame, name="nameId")`.

        The texts are categories: a number a row, and found by place, not by a join.
        """
        found = [self._texts(frame.get_column(number)).alias(t) for t, number in texts.items()]
        return frame.drop(set(texts.values())).with_columns(found)

    def _texts(self, ids: pl.Series) -> pl.Series:
        known, values = self._by_id
        return values.gather(find_rows(known, ids))

    @cached_property
    def _by_id(self) -> tuple[pl.Series, pl.Series]:
        """The string table's ids in order, and their texts."""
        strings = self.strings.drop_nulls("id").sort("id")
        return strings.get_column("id"), strings.get_column("value").cast(pl.Categorical)

    def labels(self, enumeration: str) -> dict[int, str]:
        """Labels of one of the export's own enumerations, or {} in older exports."""
        frame = self.rows(enumeration, ["id", "label"])
        pairs = zip(frame.get_column("id"), frame.get_column("label"), strict=True)
        return {int(i): str(label) for i, label in pairs if isinstance(i, int) and label}


class SqliteDatabase(SqliteFile, Database):
    """An export in SQLite. Raises DamagedError where SQLite cannot open it."""

    form = "a SQLite database"
    loss = "could only be read in part"
    again = "Export it again:  nsys export --type sqlite REPORT.nsys-rep"

    def __init__(self, path: Path, given: str) -> None:
        super().__init__(path, given, self.again, strip_versions)


def strip_versions(names: Iterable[str]) -> dict[str, str]:
    """Table names without _V2, _V3, each with the newest version's actual name."""
    newest: dict[str, tuple[int, str]] = {}
    for name in names:
        match = _VERSIONED.match(name)
        plain, version = (match[1], int(match[2])) if match else (name, 1)
        newest[plain] = max(newest.get(plain, (0, "")), (version, name))
    return {plain: name for plain, (_, name) in newest.items()}
