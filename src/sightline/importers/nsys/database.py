"""The export's tables as frames: by name whatever the schema version, as far as they are intact."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import polars as pl

from sightline.errors import DamagedError
from sightline.importers.nsys import pump

CHUNK_ROWS = 100_000  # text of one chunk: about 5 MB, and small enough that cores share evenly
# Below this one process is done before others have started (30 ms against about 1 µs a row).
PARALLEL_ROWS = 400_000
_MAX_PROCESSES = 4
_VERSIONED = re.compile(r"^(.+)_V(\d+)$")  # some exports name a table CUPTI_..._KERNEL_V2
_PAGES_AT = 28  # SQLite file format, section 1.3: the header's count of pages


class Database:
    """An export, opened read-only. `lost` says per table what could not be read."""

    def __init__(self, path: Path, given: str) -> None:
        self.path = path
        self.given = given
        self.lost: dict[str, str] = {}
        self.malformed: dict[str, int] = {}  # table to values that are no integers
        self.cut_off = _is_cut_off(path)
        try:
            self._db = pump.connect(str(path), salvage=self.cut_off)
            listed = self._db.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
        except pump.FAILURES as error:
            raise DamagedError(
                f"cannot read {given}",
                why=f"it starts like a SQLite file but is damaged or cut off ({error})",
                hint="Export it again:  nsys export --type sqlite REPORT.nsys-rep",
            ) from error
        self._actual = _without_versions([str(name) for (name,) in listed])
        self._columns: dict[str, dict[str, str]] = {}
        self._types: dict[tuple[str, str], str] = {}
        self._strings: pl.DataFrame | None = None

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @property
    def tables(self) -> list[str]:
        """Names of all tables, without version suffix."""
        return sorted(self._actual)

    def columns(self, table: str) -> dict[str, str]:
        """Columns of a table by name, each as SQL; empty where there is no such table."""
        if table not in self._columns:
            found: list[Any] = []
            if table in self._actual:
                with contextlib.suppress(*pump.FAILURES):
                    found = self._db.execute(
                        f"PRAGMA table_info({_quoted(self._actual[table])})"
                    ).fetchall()
            self._columns[table] = {row[1]: _quoted(row[1]) for row in found}
            self._types |= {(table, row[1]): str(row[2]) for row in found}
        return self._columns[table]

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table is there and has these columns."""
        have = self.columns(table)
        return bool(have) and all(c in have for c in columns)

    def is_integer(self, table: str, column: str) -> bool:
        """Whether a column is declared as an integer."""
        self.columns(table)
        return self._types.get((table, column), "").upper().startswith("INT")

    def ints(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Integer columns of a table; those that it lacks are null.

        A table that lacks its first wanted column, or is absent, has no rows.
        """
        have = self.columns(table)
        present = [c for c in wanted if c in have]
        schema = dict.fromkeys(wanted, pl.Int64)
        if not present or present[0] != wanted[0]:
            return pl.DataFrame(schema=schema)
        chunks = list(self._integer_chunks(table, present))
        if not chunks:
            return pl.DataFrame(schema=schema)
        # A column with one value throughout is kept as that one value: it takes no memory.
        same = {
            c: v
            for c, v in chunks[0][0].items()
            if all(c in constant and constant[c] == v for constant, _ in chunks)
        }
        parts = [_filled(*chunk, present, same) for chunk in chunks]
        chunks.clear()
        frame = pl.concat(parts)
        del parts
        # The CSV reader leaves room for more in each column: one by one they are made to fit.
        for name in frame.columns:
            frame.replace_column(frame.get_column_index(name), frame.get_column(name).rechunk())
        same |= {c: None for c in wanted if c not in have}
        return frame.with_columns(pl.lit(v, pl.Int64).alias(c) for c, v in same.items()).select(
            wanted
        )

    def rows(self, table: str, wanted: Sequence[str], where: str = "") -> pl.DataFrame:
        """Columns of any type, as SQLite types them; for small tables and for texts."""
        have = self.columns(table)
        present = [c for c in wanted if c in have]
        if not present:
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        sql = f"SELECT {', '.join(have[c] for c in present)} FROM {self._sql(table)} {where}"  # noqa: S608
        rows = list(self._fetch(table, sql))
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(present)
        return pl.DataFrame(
            {
                c: _typed(columns[present.index(c)]) if c in have else [None] * len(rows)
                for c in wanted
            }
        )

    def texts(self, table: str, column: str) -> pl.DataFrame:
        """rowid and the text of the rows that have one, in columns `rowid` and `text`."""
        schema = {"rowid": pl.Int64, "text": pl.String}
        have = self.columns(table)
        if column not in have:
            return pl.DataFrame(schema=schema)
        sql = (
            f"SELECT rowid, CAST({have[column]} AS TEXT) FROM {self._sql(table)} "  # noqa: S608
            f"WHERE {have[column]} IS NOT NULL"
        )
        rows = list(self._fetch(table, sql))
        ids, texts = zip(*rows, strict=True) if rows else ((), ())
        return pl.DataFrame({"rowid": ids, "text": texts}, schema=schema)

    def rowids(self, table: str) -> pl.Series:
        """The rows' own numbers, in the order of `ints`."""
        if not self.columns(table):
            return pl.Series(dtype=pl.Int64)
        self._columns[table].setdefault("rowid", "rowid")
        return self.ints(table, ["rowid"]).get_column("rowid")

    def blobs(self, table: str, column: str) -> Iterator[tuple[int, bytes]]:
        """rowid and bytes of the rows that have some; also where they were written as text."""
        sql = (
            f"SELECT rowid, CAST({self.columns(table)[column]} AS BLOB) FROM {self._sql(table)} "  # noqa: S608
            f"WHERE {self.columns(table)[column]} IS NOT NULL"
        )
        yield from self._fetch(table, sql)

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is absent or unreadable."""
        if not self.columns(table):
            return 0
        try:
            (count,) = self._db.execute(f"SELECT count(*) FROM {self._sql(table)}").fetchone()  # noqa: S608
        except pump.FAILURES as error:
            self._lose(table, error)
            return 0
        return int(count)

    @property
    def strings(self) -> pl.DataFrame:
        """The string table: id and value."""
        if self._strings is None:
            frame = self.rows("StringIds", ["id", "value"])
            self._strings = frame.select(
                pl.col("id").cast(pl.Int64, strict=False), pl.col("value").cast(pl.String)
            ).unique("id", keep="first")
        return self._strings

    def named(self, frame: pl.DataFrame, **texts: str) -> pl.DataFrame:
        """The frame with string ids replaced: `named(frame, name="nameId")`."""
        # Each column apart: a join of the whole frame would copy all of it.
        found = [
            frame.select(id=number)
            .join(self.strings, on="id", how="left", maintain_order="left")
            .get_column("value")
            .alias(text)
            for text, number in texts.items()
        ]
        return frame.drop(set(texts.values())).with_columns(found)

    def labels(self, enumeration: str) -> dict[int, str]:
        """Labels of one of the export's own enumerations, or {} in older exports."""
        frame = self.rows(enumeration, ["id", "label"])
        pairs = zip(frame.get_column("id"), frame.get_column("label"), strict=True)
        return {int(i): str(label) for i, label in pairs if isinstance(i, int) and label}

    def _sql(self, table: str) -> str:
        return _quoted(self._actual[table])

    def _lose(self, table: str, error: Exception) -> None:
        self.lost.setdefault(table, str(error))

    def _fetch(self, table: str, sql: str) -> Iterator[tuple[Any, ...]]:
        """Rows up to the first that cannot be read."""
        try:
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(5_000):
                yield from rows
        except pump.FAILURES as error:
            self._lose(table, error)

    def _integer_chunks(self, table: str, columns: list[str]) -> Iterator[_Chunk]:
        """What is constant in a chunk, and a frame with a column `_` and the others."""
        have = self.columns(table)
        expressions = [have[c] for c in columns]
        try:
            first, last = self._db.execute(
                f"SELECT (SELECT min(rowid) FROM {self._sql(table)}), "  # noqa: S608
                f"(SELECT max(rowid) FROM {self._sql(table)})"
            ).fetchone()
        except pump.FAILURES:  # cut off, or a view
            first, last = 1, 0
        if first is None:
            return
        if not (type(first) is type(last) is int and first <= last):
            yield {}, self._slow(table, columns, "")  # as far as it goes
            return
        # Ids with large holes (a filtered export) must not mean millions of empty chunks.
        step = max(CHUNK_ROWS, (last - first) // 2_000 + 1)
        spans = [(low, min(low + step - 1, last)) for low in range(first, last + 1, step)]
        for (low, high), answer in zip(spans, self._packed(table, expressions, spans), strict=True):
            chunk = None if answer is None else _parse(columns, *answer)
            if chunk is None:
                chunk = {}, self._slow(table, columns, f"WHERE rowid BETWEEN {low} AND {high}")
            if chunk[1].height:
                yield chunk

    def _packed(
        self, table: str, expressions: list[str], spans: list[tuple[int, int]]
    ) -> Iterator[tuple[dict[str, Any], bytes] | None]:
        """The packed chunks, in order; None for one that could not be read."""
        sql, done = self._sql(table), 0
        rows = spans[-1][1] - spans[0][0]
        workers = min(_MAX_PROCESSES, os.cpu_count() or 1, len(spans))
        if rows >= PARALLEL_ROWS and workers > 1 and sys.executable and not self.cut_off:
            with contextlib.suppress(OSError, _WorkerGone):
                for answer in _shared(self.path, sql, expressions, spans, workers):
                    yield answer
                    done += 1
        for low, high in spans[done:]:
            try:
                yield pump.pack(self._db, sql, expressions, low, high)
            except pump.FAILURES:
                yield None

    def _slow(self, table: str, columns: list[str], where: str) -> pl.DataFrame:
        """The same by way of Python objects: for damaged chunks and values of odd types."""
        sql = f"SELECT {', '.join(self.columns(table)[c] for c in columns)} FROM {self._sql(table)}"  # noqa: S608
        rows = list(self._fetch(table, f"{sql} {where}"))
        odd = 0
        cleaned: list[list[int | None]] = []
        for values in zip(*rows, strict=True) if rows else [()] * len(columns):
            cleaned.append([_integer(v) for v in values])
            odd += sum(
                v is not None and c is None for v, c in zip(values, cleaned[-1], strict=True)
            )
        if odd:
            self.malformed[table] = self.malformed.get(table, 0) + odd
        return pl.DataFrame(
            [pl.Series(c, v, dtype=pl.Int64) for c, v in zip(columns, cleaned, strict=True)]
        )


# What is constant in some rows, by column; and their other columns.
_Chunk = tuple[dict[str, int | None], pl.DataFrame]


class _WorkerGone(Exception):
    """A helper process ended early."""


def _shared(
    path: Path, table: str, columns: list[str], spans: list[tuple[int, int]], workers: int
) -> Iterator[tuple[dict[str, Any], bytes] | None]:
    """What several processes read, in order of the spans: span k is worker k mod n's."""
    command = [sys.executable, "-I", "-S", pump.__file__, str(path)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(workers):
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(
                    json.dumps([table, columns, spans[number::workers]]).encode() + b"\n"
                )
                process.stdin.close()
        for number in range(len(spans)):
            stream = started[number % workers].stdout
            assert stream is not None
            yield _answer(stream)
    finally:
        for process in started:
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
            process.wait()


def _answer(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    line = stream.readline()
    if not line:
        raise _WorkerGone
    head: dict[str, Any] = json.loads(line)
    if "error" in head:
        return None
    body = stream.read(head["bytes"])
    if len(body) < head["bytes"]:
        raise _WorkerGone
    head["constant"] = {int(i): v for i, v in head["constant"].items()}
    return head, body


def _parse(columns: list[str], head: dict[str, Any], body: bytes) -> _Chunk | None:
    """A chunk; None where a value is no integer."""
    rows, constant = head["rows"], head["constant"]
    varying = [c for i, c in enumerate(columns) if i not in constant]
    fixed = {columns[i]: v for i, v in constant.items()}
    if not varying or not rows:
        return fixed, pl.DataFrame({"_": pl.zeros(rows, pl.Int64, eager=True)})
    try:
        frame = pl.read_csv(
            io.BytesIO(body),
            has_header=False,
            schema=dict.fromkeys([*varying, *(["_"] if len(varying) == 1 else [])], pl.Int64),
        )
    except pl.exceptions.PolarsError:
        return None
    return (fixed, frame) if frame.height == rows else None


def _filled(
    constant: dict[str, int | None], frame: pl.DataFrame, columns: list[str], same: dict[str, Any]
) -> pl.DataFrame:
    """A chunk with all columns but those that are the same throughout."""
    wanted = [c for c in columns if c not in same]
    if not wanted:
        return frame.select(pl.first().alias("_"))  # for its number of rows
    return pl.DataFrame(
        {
            c: pl.repeat(constant[c], frame.height, dtype=pl.Int64, eager=True)
            if c in constant
            else frame.get_column(c)
            for c in wanted
        }
    )


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return None


def _typed(values: Sequence[Any]) -> pl.Series:
    """A series of the values' own type; where they differ, of text."""
    types = {type(v) for v in values if v is not None}
    if types <= {int}:
        return pl.Series(values, dtype=pl.Int64)
    if types <= {int, float}:
        return pl.Series([None if v is None else float(v) for v in values], dtype=pl.Float64)
    if types == {bytes}:
        return pl.Series(values, dtype=pl.Binary)
    return pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_versions(names: list[str]) -> dict[str, str]:
    """Table names without _V2, _V3, each with the newest version's actual name."""
    newest: dict[str, tuple[int, str]] = {}
    for name in names:
        match = _VERSIONED.match(name)
        plain, version = (match[1], int(match[2])) if match else (name, 1)
        newest[plain] = max(newest.get(plain, (0, "")), (version, name))
    return {plain: name for plain, (_, name) in newest.items()}


def _is_cut_off(path: Path) -> bool:
    """Whether the file is shorter than its header says."""
    with path.open("rb") as raw:
        head = raw.read(100)
    if len(head) < 100:
        return True
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    return path.stat().st_size < page * int.from_bytes(head[_PAGES_AT : _PAGES_AT + 4], "big")
