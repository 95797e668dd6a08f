"""An export as a folder of Parquet or Arrow files, one a table, with SQLite's names and columns.

Polars reads of each file the columns that are asked for, when they are asked for. Values come out
as from SQLite, so that the same recording gives the same run in either form: unsigned 64-bit
numbers wrap to signed ones, a number's text has 15 digits, and NaN is not a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.constants import find_constants, find_null_columns
from sightline.errors import DamagedError
from sightline.formats.nvidia._nsys.arrow_file import check_arrow_file
from sightline.formats.nvidia._nsys.database import Database, strip_versions

# PanicException is no Exception: Polars raises it where damaged bytes break what it relies on.
FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

# Packed columns of one value take next to no room, but a table has also some that vary: more rows
# than this are not what the file holds, but what it claims to hold.
_MOST_ROWS_PER_BYTE = 100
_MOST_ROWS_OF_A_SMALL_FILE = 1_000_000
# Columns that are read at once: those of one value shrink before the next ones are read.
_AT_ONCE = 8


class FolderDatabase(Database):
    """An export as a folder. Raises DamagedError where none of its tables can be read."""

    cut_off = False
    form = "a folder of tables"
    loss = "cannot be read and was left out"
    again = "Export it again:  nsys export --type parquetdir REPORT.nsys-rep"

    def __init__(self, path: Path, given: str) -> None:
        self.lost = {}
        self.malformed = {}
        self._scans: dict[str, pl.LazyFrame] = {}
        self._schemas: dict[str, pl.Schema] = {}
        files = {p.stem: p for p in sorted(path.iterdir()) if _is_table(p)}
        for table, name in strip_versions(files).items():
            self._attempt(table, partial(self._open, table, files[name]))
        if not self._scans:
            raise DamagedError(f"cannot read {given}", why="none of its tables can be read")

    def close(self) -> None:
        """Nothing is kept open."""

    @property
    def tables(self) -> list[str]:
        """Names of all tables that can be opened, without version suffix, in order."""
        return sorted(self._scans)

    def columns(self, table: str) -> list[str]:
        """Names of a table's columns; none where there is no such table."""
        return list(self._schemas.get(table, ()))

    def is_integer(self, table: str, column: str) -> bool:
        """Whether a column holds integers."""
        return table in self._schemas and self._schemas[table].get(column, pl.Null).is_integer()

    def ints(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Integer columns of a table; those that it lacks are null.

        A table that lacks its first wanted column, or is absent, has no rows.
        """
        schema = self._schemas.get(table, pl.Schema())
        found: pl.DataFrame | None = None
        if wanted[0] in schema:
            found = self._attempt(table, lambda: self._integers(table, wanted))
        return pl.DataFrame(schema=dict.fromkeys(wanted, pl.Int64)) if found is None else found

    def rows(
        self, table: str, wanted: Sequence[str], where: Mapping[str, int] | None = None
    ) -> pl.DataFrame:
        """Columns of any type, as SQLite types them; for small tables and for texts.

        `where`: only rows with these values in these columns; none where such a column is missing.
        """
        schema = self._schemas.get(table, pl.Schema())
        present = [c for c in wanted if c in schema]
        where = where or {}
        found: pl.DataFrame | None = None
        if present and all(c in schema for c in where):
            scan = self._scans[table].filter(*(pl.col(c) == v for c, v in where.items()))
            found = self._attempt(
                table, lambda: scan.select(_as_sqlite(c, schema[c]) for c in present).collect()
            )
        if found is None:
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        # As SQLite's rows show it, a column without any value has no type.
        nothing = [c for c in present if found.get_column(c).null_count() == found.height]
        return found.with_columns(
            pl.lit(None, pl.Int64).alias(c) if c in nothing else pl.lit(None).alias(c)
            for c in wanted
            if c in nothing or c not in present
        ).select(wanted)

    def texts(self, table: str, column: str) -> pl.DataFrame:
        """rowid and the text of the rows that have one, in columns `rowid` and `text`."""
        found = self._values(table, column)
        if found is None:
            return pl.DataFrame(schema={"rowid": pl.Int64, "text": pl.String})
        return found.select("rowid", text=_as_text(found.get_column("value")))

    def rowids(self, table: str) -> pl.Series:
        """The rows' own numbers, from 1, in the order of `ints`."""
        return pl.int_range(1, self.count(table) + 1, dtype=pl.Int64, eager=True)

    def blobs(self, table: str, column: str) -> Iterator[tuple[int, bytes]]:
        """rowid and bytes of the rows that have some; also where they were written as text."""
        found = self._values(table, column)
        if found is not None:
            yield from found.with_columns(pl.col("value").cast(pl.Binary)).iter_rows()

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is absent or unreadable."""
        if table not in self._scans:
            return 0
        scan = self._scans[table].select(pl.len())
        return self._attempt(table, lambda: int(scan.collect().item())) or 0

    def _attempt(self, table: str, read: Callable[[], Any]) -> Any:
        """What reading gives; None where it fails, which is noted."""
        try:
            return read()
        except FAILURES as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.lost.setdefault(table, reason)
            return None

    def _open(self, table: str, path: Path) -> None:
        if path.suffix == ".arrow":
            check_arrow_file(path)
        scan_file = pl.scan_parquet if path.suffix == ".parquet" else pl.scan_ipc
        scan = scan_file(path.absolute(), glob=False)
        schema = scan.collect_schema()
        plain = [c for c, dtype in schema.items() if not dtype.is_nested()]
        if not plain:
            return
        limit = max(_MOST_ROWS_OF_A_SMALL_FILE, _MOST_ROWS_PER_BYTE * path.stat().st_size)
        if scan.select(pl.len()).collect().item() > limit:
            raise OSError("it says that it has more rows than its size can hold")
        self._scans[table] = scan
        self._schemas[table] = pl.Schema((c, schema[c]) for c in plain)

    def _integers(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """The columns, a few at a time; one with one value throughout is kept as that value."""
        schema = self._schemas[table]
        present = [c for c in wanted if c in schema]
        same: dict[str, int | None] = dict.fromkeys(c for c in wanted if c not in schema)
        varying: list[pl.Series] = []
        odd = height = 0
        for start in range(0, len(present), _AT_ONCE):
            some = present[start : start + _AT_ONCE]
            read = self._scans[table].select(_as_sqlite(c, schema[c]) for c in some).collect()
            parsed = [_parse_integers(column) for column in read]
            part = pl.DataFrame([column for column, _ in parsed])
            odd += sum(count for _, count in parsed)
            height = part.height
            one = dict.fromkeys(find_null_columns(part)) | find_constants(part)
            same |= one
            varying += part.drop(one).get_columns()
        if odd:
            self.malformed[table] = self.malformed.get(table, 0) + odd
        # Of columns that are all the same, one of the right length keeps the count of rows.
        frame = pl.DataFrame(varying or [pl.zeros(height, pl.Int64, eager=True).alias("")])
        literals = [pl.lit(value, pl.Int64).alias(c) for c, value in same.items()]
        return frame.with_columns(literals).select(wanted)

    def _values(self, table: str, column: str) -> pl.DataFrame | None:
        """rowid and value of the rows that have one."""
        schema = self._schemas.get(table, pl.Schema())
        if column not in schema:
            return None
        value = _as_sqlite(column, schema[column]).alias("value")
        rows = self._scans[table].select(value).with_row_index("rowid", 1)
        rows = rows.filter(pl.col("value").is_not_null()).with_columns(
            pl.col("rowid").cast(pl.Int64)
        )
        found: pl.DataFrame | None = self._attempt(table, rows.collect)
        return found


def _is_table(path: Path) -> bool:
    return path.suffix in (".parquet", ".arrow") and path.is_file()


def _as_sqlite(column: str, dtype: pl.DataType) -> pl.Expr:
    """The column with a type that SQLite has."""
    value = pl.col(column)
    if dtype == pl.UInt64:
        return value.reinterpret(signed=True)
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Null):
        return value.cast(pl.Int64)
    if dtype.is_float():
        return value.cast(pl.Float64).fill_nan(None)
    return value if dtype == pl.Binary else value.cast(pl.String)


def _parse_integers(values: pl.Series) -> tuple[pl.Series, int]:
    """The integers that values of SQLite's types stand for, and how many stand for none."""
    if values.dtype == pl.Int64:
        return values, 0
    if values.dtype == pl.Float64:
        whole = (values == values.floor()) & (values.abs() < 2**53)
    elif values.dtype == pl.String:
        whole = values.str.contains(r"^-?[0-9]{1,18}$")
    else:
        whole = pl.repeat(value=False, n=values.len(), eager=True)
    kept = pl.select(pl.when(whole).then(values)).to_series().alias(values.name)
    if values.dtype == pl.Binary:
        kept = kept.cast(pl.Null)
    return kept.cast(pl.Int64), kept.null_count() - values.null_count()


def _as_text(values: pl.Series) -> pl.Series:
    """The values as SQLite writes them."""
    if values.dtype.is_float():
        return pl.Series([write_real(v) for v in values], dtype=pl.String)
    if values.dtype == pl.Binary:
        return pl.Series([v.decode("utf-8", "replace") for v in values], dtype=pl.String)
    return values.cast(pl.String)


def write_real(value: float) -> str:
    """A number as SQLite writes it: 15 digits, with a point (sqlite.org/printf.html, "!")."""
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    digits, mark, exponent = f"{value:.15g}".partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{mark}{exponent}"
