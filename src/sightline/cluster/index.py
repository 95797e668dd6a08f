"""What DuckDB knows of the store's Parquet of jobs: a table beside it, made anew at any time.

Over 365 files of a million jobs a list takes DuckDB 0.2 to 0.5 s, most of it for opening files; of
the same rows in a table of its own 0.02 to 0.05 s (benchmarks/cluster_store.py). Nothing is in it
that is not in Parquet: a file that is missing, damaged or of another version is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from sightline.cluster.shelf import Shelf
from sightline.cluster.verdicts import JOB_SCHEMA
from sightline.core.optional_packages import load_package
from sightline.errors import InputError

_FILE = "index.duckdb"
_COLUMNS = ", ".join(f'"{name}"' for name in JOB_SCHEMA)
_AT_ONCE = 500  # files that are copied, of a bucket, before they are read
_VERSION = hashlib.blake2b(repr(JOB_SCHEMA).encode(), digest_size=8).hexdigest()


class Index:
    """Tables `kept` and `live` with the columns of `JOB_SCHEMA`, and `jobs` of both."""

    def __init__(self, root: Path, memory: str, shelf: Shelf) -> None:
        """Open it. Raises RequestError where DuckDB is not installed, InputError for its place."""
        self._duckdb: Any = load_package("duckdb", "duckdb", "jobs are searched by DuckDB")
        self._shelf, self._place = shelf, root / _FILE
        self.damaged: dict[str, str] = {}  # files that are left out, and why
        try:
            self._connection = self._open(memory)
        except self._duckdb.Error:
            self._remove()
            try:
                self._connection = self._open(memory)
            except self._duckdb.Error as error:
                raise InputError(
                    f"DuckDB cannot write {self._place}",
                    why=str(error),
                    hint="Give `store` another place; DuckDB takes no '?' in it.",
                ) from error

    def _open(self, memory: str) -> Any:
        connection = self._duckdb.connect(str(self._place))
        try:
            for setting in (
                f"memory_limit='{memory}'",
                "autoinstall_known_extensions=false",
                "autoload_known_extensions=false",
            ):
                connection.execute(f"SET {setting}")
            connection.execute("CREATE TABLE IF NOT EXISTS about (version VARCHAR)")
            found = [row[0] for row in connection.execute("SELECT version FROM about").fetchall()]
            if found not in ([], [_VERSION]):
                raise self._duckdb.InvalidInputException("of another version")
            empty = pl.DataFrame(schema={**JOB_SCHEMA, "cluster": pl.String, "part": pl.String})
            with _written(empty) as path:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM read_parquet(?)", [path]
                )
            connection.execute("CREATE TABLE IF NOT EXISTS parts (part VARCHAR)")
            if not found:
                connection.execute("INSERT INTO about VALUES (?)", [_VERSION])
        except self._duckdb.Error:
            connection.close()
            raise
        return connection

    def _remove(self) -> None:
        for path in (self._place, self._place.with_name(f"{_FILE}.wal")):
            path.unlink(missing_ok=True)

    def update(self, files: Iterable[str], live: pl.DataFrame) -> None:
        """Take in files that are new, let go of those that are gone, and take these live rows.

        Raises OSError where a file cannot be read.
        """
        try:
            self._update(set(files) - self.damaged.keys(), live)
        except self._duckdb.Error:
            new = set(files) - self.damaged.keys()
            found = self._find_damaged(sorted(new - self._list_known()))
            if not found:
                raise
            self.damaged |= found
            self._update(new - found.keys(), live)

    def _list_known(self) -> set[str]:
        """The files whose rows are in the table."""
        return {row[0] for row in self._connection.execute("SELECT part FROM parts").fetchall()}

    def _find_damaged(self, names: list[str]) -> dict[str, str]:
        """Files that cannot be read, with the reason; one must not hide the jobs of all others."""
        found = {}
        for name in names:
            with self._shelf.bring([name]) as root:
                try:
                    self._connection.execute(
                        f"SELECT bit_xor(hash({_COLUMNS})) FROM read_parquet(?)", [str(root / name)]
                    ).fetchall()
                except self._duckdb.Error as error:
                    found[name] = str(error).splitlines()[0]
        return found

    def _update(self, wanted: set[str], live: pl.DataFrame) -> None:
        ask = self._connection.execute
        known = self._list_known()
        gone, new = sorted(known - wanted), sorted(wanted - known)
        ask("BEGIN")
        try:
            if gone:
                for table in ("kept", "parts"):
                    ask(f"DELETE FROM {table} WHERE list_contains(?::VARCHAR[], part)", [gone])
            for first in range(0, len(new), _AT_ONCE):
                self._take(new[first : first + _AT_ONCE])
            with _written(live) as path:
                ask("CREATE OR REPLACE TABLE live AS SELECT * FROM read_parquet(?)", [path])
            columns = f"rowid AS place, cluster, {_COLUMNS}"
            ask(
                f"CREATE OR REPLACE VIEW jobs AS SELECT false AS is_live, {columns} FROM kept "
                f"UNION ALL SELECT true AS is_live, {columns} FROM live"
            )
            ask("COMMIT")
        except BaseException:
            ask("ROLLBACK")
            raise

    def _take(self, names: list[str]) -> None:
        ask = self._connection.execute
        with self._shelf.bring(names) as root:
            ask(
                f"INSERT INTO kept SELECT {_COLUMNS}, cluster, "
                "substr(filename, ?) FROM read_parquet(?, filename=true, "
                "hive_partitioning=true, hive_types={'cluster': VARCHAR, 'day': VARCHAR})",
                [len(str(root)) + 2, [str(root / name) for name in names]],
            )
        ask("INSERT INTO parts SELECT unnest(?::VARCHAR[])", [names])

    def begin(self) -> Any:
        """A connection that sees the tables as they are now, for one thread; to be closed."""
        cursor = self._connection.cursor()
        cursor.execute("BEGIN")
        return cursor

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


@contextlib.contextmanager
def _written(frame: pl.DataFrame) -> Any:
    """The path of a frame as Parquet, for as long as the block lasts."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        frame.write_parquet(file.name)
        yield file.name
