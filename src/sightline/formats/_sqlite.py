"""What importers of SQLite files share: read-only opening, typed rows, as far as a file is intact.

Tables of integers are read page by page by compiled code. What that finds odd (values of another
type, damage, a view) is read by SQLite itself, in spans, so that damage costs one span and not the
table.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import polars as pl

from sightline._native import integers
from sightline.core.algebra import arrow as compiled
from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.declare import Quality
from sightline.core.text import make_printable
from sightline.errors import DamagedError
from sightline.formats._sqlite_pages import count_foreign_pages

# What reading a damaged file raises: SQLite's own error, or its message if that is no UTF-8.
FAILURES = (sqlite3.Error, UnicodeError, OverflowError)

_MOST_KEYS = 100_000  # of those that name nothing, are counted
_CHECKED_BYTES = 64 << 20  # a second's work
SPAN_ROWS = 100_000  # lost at most where a part of the file is damaged
_LARGEST_VALUE = 256 << 20
# Steps of SQLite's machine: it takes about ten for a value, which has a byte at least, and every
# table is read a few times.
_STEPS, _STEPS_PER_BYTE, _STEPS_AT_ONCE = 10**8, 1_000, 10**6
ROWID = -1  # the row's own number, as a place among its columns
_PAGES_AT = 28  # SQLite file format, section 1.3: the header's count of pages


def map_names(names: Iterable[str]) -> dict[str, str]:
    """Each table under its own name."""
    return {name: name for name in names}


class SqliteFile:
    """A SQLite file, opened read-only. `lost` says per table what could not be read."""

    def __init__(
        self,
        path: Path,
        given: str,
        hint: str | None = None,
        rename: Callable[[Iterable[str]], dict[str, str]] = map_names,
    ) -> None:
        """Open it. `rename` gives the tables' names here, each with its name in the file.

        Raises DamagedError, with the hint, where SQLite cannot.
        """
        self.path = path
        self.lost: dict[str, str] = {}
        self.malformed: dict[str, int] = {}  # table to values that are not integers
        self._merged = merge_log(path)
        if self._merged is not None:
            self.path = path = Path(self._merged.name) / "merged.sqlite"
        self.cut_off = is_cut_off(path)
        try:
            self._db = connect_readonly(path, salvage=self.cut_off)
            listed = self._db.execute(
                # No views, which may compute for ever, and no virtual tables, which run code.
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
            ).fetchall()
        except FAILURES as error:
            raise DamagedError(
                f"cannot read {given}",
                why=f"it starts like a SQLite file but is damaged or cut off ({error})",
                hint=hint,
            ) from error
        self._actual = rename(str(name) for (name,) in listed)
        self._columns: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
        if self._merged is not None:
            self._merged.cleanup()

    def note_structure(self, *, is_altered: bool = False) -> list[Quality]:
        """What SQLite itself finds wrong with the file's pages, rows and orders.

        `is_altered`: its tool adds columns to tables that have rows, which then have fewer.

        Damage can leave a file in which every table is read without an error, and rows are gone.
        Larger files are not checked: that would read all of them once more.
        """
        if self.cut_off or self.path.stat().st_size > _CHECKED_BYTES:
            return []
        try:
            found = [str(row[0]) for row in self._db.execute("PRAGMA quick_check(20)")]
        except FAILURES as error:
            found = [str(error)]
        found = [line for line in found if line != "ok"]
        if not found:
            return self._note_foreign_pages(is_altered) + self._note_lost_keys()
        words = make_printable(found[0])[:200]
        text = f"SQLite finds the file damaged, rows may be missing: {words}"
        return [Quality("damaged_database", "error", text, len(found))]

    def _note_foreign_pages(self, is_altered: bool) -> list[Quality]:
        count = 0
        with contextlib.suppress(*FAILURES, OSError, IndexError):
            count = count_foreign_pages(self._db, self.path, is_altered=is_altered)
        if not count:
            return []
        text = "pages hold rows of another table than theirs: rows are missing, and some are wrong"
        return [Quality("damaged_database", "error", text, count)]

    def _note_lost_keys(self) -> list[Quality]:
        """Rows that name a row of another table that is not there, by the keys that are declared.

        A tool may leave such rows behind without any damage.
        """
        lost: Counter[str] = Counter()
        with contextlib.suppress(*FAILURES):
            for row in self._db.execute("PRAGMA foreign_key_check"):
                lost[str(row[0])] += 1
                if lost.total() >= _MOST_KEYS:
                    break
        if not lost:
            return []
        shown = ", ".join(sorted(map(make_printable, lost))[:3])
        text = f"rows of {shown} refer to rows of other tables that are missing"
        return [Quality("missing_rows", "warning", text, lost.total())]

    @property
    def tables(self) -> list[str]:
        """Names of all tables."""
        return sorted(self._actual)

    def columns(self, table: str) -> dict[str, str]:
        """A table's columns with their declared types; none where there is no such table."""
        if table not in self._columns:
            found: list[Any] = []
            if table in self._actual:
                with contextlib.suppress(*FAILURES):
                    found = self._db.execute(f"PRAGMA table_info({self._sql(table)})").fetchall()
            self._columns[table] = {row[1]: str(row[2]) for row in found}
        return self._columns[table]

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table is there and has these columns."""
        have = self.columns(table)
        return bool(have) and all(c in have for c in columns)

    def is_integer(self, table: str, column: str) -> bool:
        """Whether a column is declared as an integer."""
        return self.columns(table).get(column, "").upper().startswith("INT")

    def ints(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Integer columns of a table; those that it lacks are null.

        A table that lacks its first wanted column, or is absent, has no rows.
        """
        have = self.columns(table)
        present = [c for c in wanted if c in have]
        schema = dict.fromkeys(wanted, pl.Int64)
        if not present or present[0] != wanted[0]:
            return pl.DataFrame(schema=schema)
        lacking = [pl.lit(None, pl.Int64).alias(c) for c in wanted if c not in have]
        return self._integers(table, present).with_columns(lacking).select(wanted)

    def rows(
        self, table: str, wanted: Sequence[str], where: Mapping[str, int] | None = None
    ) -> pl.DataFrame:
        """Columns of any type, as SQLite types them; for small tables and for texts.

        `where`: only rows with these values in these columns; none where such a column is missing.
        """
        have = self.columns(table)
        present = [c for c in wanted if c in have]
        where = where or {}
        if not present or not all(c in have for c in where):
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        sql = f"SELECT {', '.join(map(quote_name, present))} FROM {self._sql(table)}"  # noqa: S608
        if where:
            sql += " WHERE " + " AND ".join(f"{quote_name(c)} = {int(v)}" for c, v in where.items())
        rows = list(self._fetch(table, sql))
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(present)
        return pl.DataFrame(
            {
                c: type_values(columns[present.index(c)]) if c in have else [None] * len(rows)
                for c in wanted
            }
        )

    def texts(self, table: str, column: str) -> pl.DataFrame:
        """rowid and the text of the rows that have one, in columns `rowid` and `text`."""
        rows = list(self._cast(table, column, "TEXT"))
        ids, texts = zip(*rows, strict=True) if rows else ((), ())
        schema = {"rowid": pl.Int64, "text": pl.String}
        return pl.DataFrame({"rowid": ids, "text": texts}, schema=schema)

    def blobs(self, table: str, column: str) -> Iterator[tuple[int, bytes]]:
        """rowid and bytes of the rows that have some; also where they were written as text."""
        return self._cast(table, column, "BLOB")

    def rowids(self, table: str) -> pl.Series:
        """The rows' own numbers, in the order of `ints`."""
        if not self.columns(table):
            return pl.Series(dtype=pl.Int64)
        return self._integers(table, ["rowid"]).get_column("rowid")

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is absent or unreadable."""
        if not self.columns(table):
            return 0
        try:
            (count,) = self._db.execute(f"SELECT count(*) FROM {self._sql(table)}").fetchone()  # noqa: S608
        except FAILURES as error:
            self._lose(table, error)
            return 0
        return int(count)

    def _sql(self, table: str) -> str:
        return quote_name(self._actual[table])

    def _lose(self, table: str, error: Exception) -> None:
        self.lost.setdefault(table, str(error))

    def _cast(self, table: str, column: str, kind: str) -> Iterator[tuple[Any, ...]]:
        """rowid and value, as SQL's TEXT or BLOB, of the rows that have one."""
        if column in self.columns(table):
            name = quote_name(column)
            sql = f"SELECT rowid, CAST({name} AS {kind}) FROM {self._sql(table)}"  # noqa: S608
            # A damaged file may have rows that are null all the same.
            found = self._fetch(table, f"{sql} WHERE {name} IS NOT NULL")
            yield from (row for row in found if row[1] is not None)

    def _fetch(self, table: str, sql: str) -> Iterator[tuple[Any, ...]]:
        """Rows up to the first that cannot be read."""
        try:
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(5_000):
                yield from rows
        except FAILURES as error:
            self._lose(table, error)

    def _integers(self, table: str, columns: list[str]) -> pl.DataFrame:
        """All rows in order of their number; damaged parts are left out and told of in `lost`."""
        stored = None if self.cut_off else self._stored(table)
        if stored is not None and all(c in stored.places for c in columns):
            with contextlib.suppress(OSError):
                found = integers(
                    self.path,
                    stored.root,
                    [stored.places[c] for c in columns],
                    stored.alias,
                    os.cpu_count() or 1,
                )
                if found is not None:
                    return compiled.unpack_varying(columns, *found)
        try:
            first, last = self._db.execute(
                f"SELECT (SELECT min(rowid) FROM {self._sql(table)}), "  # noqa: S608
                f"(SELECT max(rowid) FROM {self._sql(table)})"
            ).fetchone()
        except FAILURES:  # cut off, or a view
            first, last = 1, 0
        if first is None:
            return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
        if not (type(first) is type(last) is int and first <= last):
            return self._slow(table, columns, "")  # as far as it goes
        # Ids with large holes (a filtered export) must not mean millions of empty spans.
        step = max(SPAN_ROWS, (last - first) // 2_000 + 1)
        return pl.concat(
            self._slow(table, columns, f"WHERE rowid BETWEEN {low} AND {low + step - 1}")
            for low in range(first, last + 1, step)
        )

    def _stored(self, table: str) -> _Stored | None:
        """Where a table's values lie in the file; None where only SQLite can tell."""
        try:
            roots = self._db.execute(
                "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?",
                (self._actual[table],),
            ).fetchone()
            listed = self._db.execute(f"PRAGMA table_xinfo({self._sql(table)})").fetchall()
        except FAILURES:
            return None
        # Computed columns are not stored where their place says.
        if roots is None or not roots[0] or any(hidden for *_, hidden in listed):
            return None
        keys = [(place, str(declared)) for place, _, declared, _, _, key, _ in listed if key]
        # An only key that is an INTEGER is the row's number by another name.
        alias = keys[0][0] if len(keys) == 1 and keys[0][1].upper() == "INTEGER" else -1
        return _Stored(roots[0], {str(r[1]): r[0] for r in listed} | {"rowid": ROWID}, alias)

    def _slow(self, table: str, columns: list[str], where: str) -> pl.DataFrame:
        """The same by way of Python objects: for damaged chunks and values of odd types."""
        sql = f"SELECT {', '.join(map(quote_name, columns))} FROM {self._sql(table)}"  # noqa: S608
        rows = list(self._fetch(table, f"{sql} {where}"))
        odd = 0
        cleaned: list[list[int | None]] = []
        for values in zip(*rows, strict=True) if rows else [()] * len(columns):
            cleaned.append([parse_integer(v) for v in values])
            odd += sum(
                v is not None and c is None for v, c in zip(values, cleaned[-1], strict=True)
            )
        if odd:
            self.malformed[table] = self.malformed.get(table, 0) + odd
        return pl.DataFrame(
            [pl.Series(c, v, dtype=pl.Int64) for c, v in zip(columns, cleaned, strict=True)]
        )


class _Stored(NamedTuple):
    root: int
    places: dict[str, int]
    alias: int


def find_log(path: Path) -> Path | None:
    """The log beside a database in which its last transactions stand, where there is one."""
    log = path.with_name(f"{path.name}-wal")
    return log if log.is_file() and log.stat().st_size else None


def merge_log(path: Path) -> tempfile.TemporaryDirectory[str] | None:
    """A folder with a copy of the database in which its log is written; None where it has none.

    The file itself and what lies beside it stay as they are. What of the log is not whole SQLite
    leaves out, as its checksums say. Raises OSError where there is no room.
    """
    log = find_log(path)
    if log is None:
        return None
    folder = tempfile.TemporaryDirectory(prefix="sqlite-", dir=open_cache_folder())
    copy = Path(folder.name) / "merged.sqlite"
    shutil.copyfile(path, copy)
    shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    with contextlib.suppress(*FAILURES), contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


def connect_readonly(path: Path, *, salvage: bool) -> sqlite3.Connection:
    """The database, read-only; SQLite takes no lock and makes no file beside it."""
    # immutable: also on a read-only file system, and although a -wal file may lie there.
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False)
    # Nothing that the file says is run, no value is larger than a recording holds, and a damaged
    # file of which SQLite finds no end is given up.
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA trusted_schema=OFF")
    if hasattr(db, "setlimit"):  # Python 3.11
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    steps = itertools.count(_STEPS_AT_ONCE, _STEPS_AT_ONCE)
    most = _STEPS + _STEPS_PER_BYTE * path.stat().st_size
    db.set_progress_handler(lambda: int(next(steps) > most), _STEPS_AT_ONCE)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    if salvage:
        # Lets SQLite open a file that is shorter than its header says; nothing is written.
        db.execute("PRAGMA writable_schema=ON")
    return db


def read_schema(path: Path) -> bytes:
    """How each of its first thousand tables begins, as SQL; nothing of a file that SQLite refuses.

    Which tables there are tells whose file it is, and their first columns are enough for that.
    """
    try:
        with contextlib.closing(connect_readonly(path, salvage=is_cut_off(path))) as db:
            begins = (
                "SELECT substr(sql, 1, 200) FROM sqlite_master WHERE sql IS NOT NULL LIMIT 1000"
            )
            return "\n".join(str(sql) for (sql,) in db.execute(begins)).encode()
    except (*FAILURES, OSError):
        return b""


def parse_integer(value: Any) -> int | None:
    """The integer that a value of any type stands for, or None."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return None


def type_values(values: Sequence[Any]) -> pl.Series:
    """A series of the values' own type; where they differ, of text, and so are blobs."""
    types = {type(v) for v in values if v is not None}
    if types <= {int}:
        return pl.Series(values, dtype=pl.Int64)
    if types <= {int, float}:
        return pl.Series([None if v is None else float(v) for v in values], dtype=pl.Float64)
    texts = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)
    return pl.Series([None if v is None else str(v) for v in texts], dtype=pl.String)


def quote_name(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def is_cut_off(path: Path) -> bool:
    """Whether the file is shorter than its header says."""
    with path.open("rb") as raw:
        head = raw.read(100)
    if len(head) < 100:
        return True
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    return path.stat().st_size < page * int.from_bytes(head[_PAGES_AT : _PAGES_AT + 4], "big")
