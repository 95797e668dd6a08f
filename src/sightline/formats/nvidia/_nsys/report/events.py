"""A report's events as columns, by the names of the export's tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from sightline._native import ReportEvents
from sightline.core.algebra.arrow import unpack_columns, unpack_varying
from sightline.formats.nvidia._nsys.report.plans import PLANS, Column

_BLOCKS_AT_ONCE = 64  # about 50 ms, after which Ctrl-C is heard


class EventTables:
    """The events of the blocks from `start` to `end` of a file, read at most up to a count."""

    def __init__(self, path: Path, start: int, end: int, most: int) -> None:
        self._events = ReportEvents(path, start, end, most, PLANS)
        while self._events.read(_BLOCKS_AT_ONCE):
            pass
        self.counted = self._events.counted()
        columns = {plan.table: plan.columns for plan in PLANS if plan.table}
        for plan in PLANS:
            for chain in plan.chain:
                columns[chain.table] = [Column("id", []), *chain.columns, Column("stackDepth", [])]
        # Of the tables with rows, the kind of each column.
        self.kinds = {
            name: {column.name: column.kind for column in found}
            for name, found in columns.items()
            if self._events.rows(name)
        }

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return self._events.rows(table)

    def read(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of a table with rows: numbers, and for texts and payloads their row + 1."""
        names = list(columns)
        return unpack_varying(names, *self._events.columns(table, names))

    def take(self, table: str, columns: Sequence[str], narrow: Sequence[str]) -> pl.DataFrame:
        """As `read`, once: nothing of the table but its count is kept here.

        Columns in `narrow` have the narrowest type that holds them.
        """
        names = list(columns)
        return unpack_varying(names, *self._events.take(table, names, list(narrow)))

    def decode(self, table: str, values: pl.Series) -> pl.Series:
        """A column of `read` as the export has it: texts in place of their numbers."""
        if self.kinds[table][values.name] != "text":
            return values
        return self._texts.gather(values - 1).alias(values.name)

    def find_text(self, text: str) -> int | None:
        """The number that stands for a text in a column of `read`; None where no event has it."""
        places = (self.payloads == pl.Series([text.encode()])).arg_true()
        return places[0] + 1 if places.len() else None

    @cached_property
    def payloads(self) -> pl.Series:
        """The texts and payloads that events hold themselves, as bytes."""
        return unpack_columns(self._events.texts()).get_column("text")

    @cached_property
    def _texts(self) -> pl.Series:
        """The same as texts; what is not UTF-8 has replacement characters."""
        try:
            return self.payloads.cast(pl.String)
        except pl.exceptions.PolarsError:
            decoded = [value.decode("utf-8", "replace") for value in self.payloads]
            return pl.Series(decoded, dtype=pl.String)
