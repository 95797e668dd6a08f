"""SQL over a run: DuckDB views on the store's Parquet files."""

from __future__ import annotations

import glob
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.columns import DType, Table
from sightline.core.model.run import Run
from sightline.core.model.store import FROM_FACTS, ID_SHIFT, Part
from sightline.core.model.tables import load_table
from sightline.core.optional_packages import load_package
from sightline.core.text import replace_surrogates
from sightline.core.units import format_several
from sightline.errors import RequestError
from sightline.timeline.run_labels import label_run_kernels

# Polars type: DuckDB's name for it, for columns that no file holds.
_SQL_TYPES: dict[DType, str] = {
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.String: "VARCHAR",
    pl.Boolean: "BOOLEAN",
}
_SQL_TYPES |= {pl.List(inner): f"{name}[]" for inner, name in _SQL_TYPES.items()}


LABELS = "kernel_labels"  # a table of names and labels, beside those of the store


@dataclass(frozen=True)
class Bounds:
    """What a query may take: rows of its answer, seconds, bytes of memory; nothing goes to disk."""

    rows: int
    seconds: float
    memory_bytes: int


def answer_query(
    run: Run, query: str, *, unsafe: bool = False, bounds: Bounds | None = None
) -> pl.DataFrame:
    """The rows of a query over the tables of a run. Raises RequestError where the SQL is wrong.

    One statement, which sees the run's files and no others, unless `unsafe`. With `bounds`, it is
    the first rows, and what takes longer or more memory is an error.
    """
    names = registry.list_names("tables")

    def define(connection: Any) -> None:
        for name in names:
            _define(connection, run, load_table(name))
        if LABELS in query.lower():
            _define_labels(connection, run)

    files = {str(p.file(n).absolute()) for p in run.parts for n in names if p.file(n).is_file()}
    return answer_tables(define, files, query, unsafe=unsafe, bounds=bounds)


def answer_tables(
    define: Callable[[Any], None],
    files: Collection[str],
    query: str,
    *,
    unsafe: bool = False,
    bounds: Bounds | None = None,
    hint: str = "The tables and their columns:  sightline tables",
) -> pl.DataFrame:
    """The rows of a query over what `define` puts into a connection; `files` are all it may read.

    As `answer_query` otherwise. Nothing is kept open.
    """
    duckdb: Any = load_package("duckdb", "duckdb", "SQL is answered by DuckDB")
    connection = duckdb.connect(":memory:")
    timer = threading.Timer(bounds.seconds if bounds else 0, connection.interrupt)
    if bounds:
        connection.execute(f"SET memory_limit='{bounds.memory_bytes}B'")
        connection.execute("SET max_temp_directory_size='0B'")
    # Nothing leaves the machine: DuckDB would fetch extensions it misses.
    connection.execute("SET autoinstall_known_extensions=false")
    if not unsafe:
        connection.execute("SET autoload_known_extensions=false")
    try:
        define(connection)
        query = replace_surrogates(query)  # of a shell's arguments that are not UTF-8
        statements = connection.extract_statements(query)
        if not statements:
            raise RequestError("there is no query", hint=hint)
        if len(statements) > 1 and not unsafe:
            raise RequestError(
                "the query cannot be answered",
                why=f"it is {format_several(len(statements), 'statement')}, not one",
            )
        if not unsafe:
            _close(connection, files)
        if bounds:
            timer.daemon = True
            timer.start()
        for statement in statements:
            result = connection.execute(statement)
        if result.description is None:
            return pl.DataFrame()
        names = _distinct([column[0] for column in result.description])
        # Moments with a time zone would come by way of pytz, which nothing else needs.
        zoned = [c[1] in _ZONED for c in result.description]
        if any(zoned) and len(statements) == 1:
            columns = ", ".join(
                f'"c{i}"::VARCHAR' if is_zoned else f'"c{i}"' for i, is_zoned in enumerate(zoned)
            )
            given = ", ".join(f'"c{i}"' for i in range(len(zoned)))
            result = connection.execute(f"SELECT {columns} FROM ({query}) AS asked({given})")  # noqa: S608
        rows = result.fetchmany(bounds.rows) if bounds else result.fetchall()
        return _make_frame(rows, names)
    except duckdb.InterruptException as error:
        raise RequestError(
            "the query was stopped",
            why=f"it took longer than {bounds.seconds:g} s" if bounds else "it was interrupted",
            hint="A query of any length:  sightline sql",
        ) from error
    except duckdb.Error as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise RequestError(
            "the query cannot be answered",
            why=lines[0].rstrip(".!") if lines else type(error).__name__,
            # Where in the query it is, and the names that DuckDB would have known instead.
            hint="\n".join([*lines[1:], hint]),
        ) from error
    finally:
        timer.cancel()
        connection.close()


def _make_frame(rows: list[tuple[Any, ...]], names: list[str]) -> pl.DataFrame:
    """The rows as a frame; columns for which Polars has no type, such as maps, become text."""
    try:
        return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return pl.DataFrame(list(map(_make_column, names, columns)))


def _make_column(name: str, values: Sequence[Any]) -> pl.Series:
    try:
        return pl.Series(name, values, strict=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return pl.Series(name, [None if v is None else str(v) for v in values], pl.String)


_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE")


def _close(connection: Any, files: Collection[str]) -> None:
    """Nothing but these files: no other file, no address, and no way back."""
    # DuckDB compares before it expands: both the name and what stands for it in the views.
    files = {*files, *(glob.escape(f) for f in files)}
    quoted = ", ".join("'" + f.replace("'", "''") + "'" for f in sorted(files))
    connection.execute(f"SET allowed_paths=[{quoted}]")
    connection.execute("SET enable_external_access=false")
    connection.execute("SET lock_configuration=true")


def _define(connection: Any, run: Run, table: Table) -> None:
    """One view per table, over all recordings; a table without rows is an empty one."""
    columns = ", ".join(f'"{n}" {_SQL_TYPES[t]}' for n, t in table.schema.items())
    if table.name in FROM_FACTS:
        rows = run.table(table.name).rows()
        connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
        if rows:
            marks = ", ".join("?" for _ in table.schema)
            connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', rows)  # noqa: S608
        return
    parts = [part for part in run.parts if part.file(table.name).is_file()]
    if not parts:
        connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
        return
    selects = " UNION ALL ".join(_select(part, table) for part in parts)
    connection.execute(f'CREATE VIEW "{table.name}" AS {selects}')


def _define_labels(connection: Any, run: Run) -> None:
    """The labels of kernels on all screens, by their names: made where a query asks for them."""
    connection.execute(f"CREATE TABLE {LABELS} (name VARCHAR, label VARCHAR)")
    rows = list(label_run_kernels(run).items())
    if rows:
        connection.executemany(f"INSERT INTO {LABELS} VALUES (?, ?)", rows)  # noqa: S608


def _select(part: Part, table: Table) -> str:
    """One recording's rows with the run's rank and ids.

    Into the text get our own names, numbers, and texts of the recording as quoted literals.
    """
    offset = (part.recording_id - part.index) << ID_SHIFT
    shifted = {name for name in table.ids if name != "recording_id"}
    stored, constants = part.columns(table), part.constants(table)
    fields = []
    for name, dtype in table.schema.items():
        if name == "rank":
            fields.append(f'{part.rank}::BIGINT AS "rank"')
        elif name == "recording_id":
            fields.append(f'{part.recording_id}::BIGINT AS "recording_id"')
        elif name not in stored:
            fields.append(f'{_literal(constants.get(name))}::{_SQL_TYPES[dtype]} AS "{name}"')
        elif name in shifted and offset:
            fields.append(f'"{name}" + {offset} AS "{name}"')
        else:
            fields.append(f'"{name}"')
    # DuckDB knows no way to say that a path is one, but its brackets are Python's.
    path = glob.escape(str(part.file(table.name).absolute())).replace("'", "''")
    return f"SELECT {', '.join(fields)} FROM read_parquet('{path}', hive_partitioning=false)"  # noqa: S608


def _literal(value: int | str | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _distinct(names: list[str]) -> list[str]:
    """Column names of which none is twice: the second 'n' becomes 'n_2'."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result
