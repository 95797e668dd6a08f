"""A report as the SQLite database that nsys exports, for scripts that read those.

Tables and columns have the names of the "SQLite Schema Reference" of the Nsight Systems
documentation; rows are in the export's order, so that row numbers are the same. Left out is what
says who recorded where: strings that no row names (a report keeps environment and output among its
strings), processes and threads that did nothing, ids of GPUs and network cards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

import polars as pl

from sightline.formats.nvidia._nsys.report.database import ReportDatabase
from sightline.formats.nvidia._nsys.stacks import hide_identity

# Columns of the export that a report was never seen to have a value for: scripts name them.
_EMPTY = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("graphNodeId", "graphId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "deprecatedSrcId",
        "srcDeviceId",
        "srcContextId",
        "dstDeviceId",
        "dstContextId",
        "migrationCause",
        "graphNodeId",
        "virtualAddress",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("graphNodeId",),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("deprecatedSyncType",),
    "NVTX_EVENTS": (
        "endGlobalTid",
        "uint64Value",
        "uint32Value",
        "int32Value",
        "floatValue",
        "jsonTextId",
        "jsonText",
    ),
    "SCHED_EVENTS": ("threadBlock",),
    "MPI_COMMUNICATORS": ("members",),
}
_STRING_COLUMNS = {"demangledName", "shortName", "mangledName", "symbol", "module"}
_LAST = ("StringIds", "PROCESSES", "ThreadNames")  # they depend on what the others name
_LEFT_OUT = ("TARGET_INFO_NIC_INFO", "TARGET_INFO_SYSTEM_ENV")
_ROWS_AT_ONCE = 100_000


def write_export(report: Path, target: Path) -> None:
    """Write the database; a file that is there is replaced.

    Raises DamagedError where the report cannot be read, sqlite3.Error where it cannot be written.
    """
    source = ReportDatabase(report, report.name)
    target.unlink(missing_ok=True)
    writer = _Writer(sqlite3.connect(target))
    try:
        for table in source.tables:
            if table not in _LAST and table not in _LEFT_OUT:
                writer.write(table, _read_table(source, table))
        writer.write("StringIds", _read_table(source, "StringIds"), ("id", writer.strings))
        writer.write("PROCESSES", _read_table(source, "PROCESSES"), ("globalPid", writer.processes))
        writer.write(
            "ThreadNames", _read_table(source, "ThreadNames"), ("globalTid", writer.threads)
        )
        for table, labels in _list_enumerations():
            writer.write(table, labels)
    finally:
        writer.close()


def _list_enumerations() -> Iterator[tuple[str, pl.DataFrame]]:
    """What the codes in the tables mean: ENUM_ tables with id, name and label."""
    data = files("sightline.formats.nvidia._nsys.report").joinpath("enumerations.tsv").read_bytes()
    rows = pl.read_csv(data, separator="\t", comment_prefix="#", quote_char=None)
    for (table,), labels in rows.group_by("table", maintain_order=True):
        yield f"ENUM_{table}", labels.select("id", "name", "label")


def _read_table(source: ReportDatabase, table: str) -> pl.DataFrame:
    """All columns as the export has them; without rows where the report has none."""
    frame = source.rows(table, source.columns(table))
    if "binaryData" in frame.columns:
        payloads = dict(source.blobs(table, "binaryData"))
        values = [payloads.get(rowid) for rowid in range(1, frame.height + 1)]
        frame = frame.with_columns(binaryData=pl.Series(values, dtype=pl.Binary))
    if table == "DIAGNOSTIC_EVENT":
        frame = frame.with_columns(text=hide_identity("text", keep=False))
    if table == "TARGET_INFO_GPU":
        frame = frame.with_columns(uuid=pl.lit(None, pl.String))
    return frame.with_columns(pl.lit(None, pl.Int64).alias(c) for c in _EMPTY.get(table, ()))


class _Writer:
    """Writes tables, and notes which strings, processes and threads their rows name."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._db.execute("PRAGMA journal_mode = OFF")  # a new file: nothing to roll back to
        self.strings: set[int] = set()
        self.processes: set[int] = set()
        self.threads: set[int] = set()

    def write(
        self, table: str, frame: pl.DataFrame, only: tuple[str, Iterable[int]] | None = None
    ) -> None:
        """Write a table; `only` is a column and the values of the rows that are wanted."""
        if not frame.columns:
            return
        if only is not None:
            wanted = pl.Series(sorted(only[1]), dtype=pl.Int64).implode()
            frame = frame.filter(pl.col(only[0]).is_in(wanted))
        key = " PRIMARY KEY" if table == "StringIds" or table.startswith("ENUM_") else ""
        kinds = {pl.String: "TEXT", pl.Binary: "BLOB", pl.Float64: "REAL"}
        columns = [
            f'"{name}" {kinds.get(dtype.base_type(), "INTEGER")}{key if name == "id" else ""}'
            for name, dtype in frame.schema.items()
        ]
        self._db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        marks = ", ".join("?" for _ in columns)
        for rows in frame.iter_slices(_ROWS_AT_ONCE):
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows.iter_rows())  # noqa: S608
        self._note(frame)

    def _note(self, frame: pl.DataFrame) -> None:
        def values(column: str) -> set[int]:
            return set(frame.get_column(column).drop_nulls().unique().to_list())

        for column in frame.columns:
            if column in _STRING_COLUMNS or column.endswith(("nameId", "textId")):
                self.strings |= values(column)
        if "globalTid" in frame.columns:
            self.threads |= values("globalTid")
            self.processes |= {thread - thread % 2**24 for thread in values("globalTid")}
        if "globalPid" in frame.columns:
            self.processes |= values("globalPid")

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        self._db.commit()
        self._db.close()
