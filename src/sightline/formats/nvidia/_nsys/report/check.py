"""A report against the export that nsys made of it: how many rows of which table are equal.

Only names of tables and columns and counts come out, so that a person can show the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from sightline.formats.nvidia._nsys.database import Database, SqliteDatabase
from sightline.formats.nvidia._nsys.report.database import ReportDatabase

# What the export says of itself, of the recording's options and environment, and of what was
# printed; and its enumerations.
_NOT_COMPARED = (
    "ANALYSIS_FILE",
    "ENUM_",
    "EXPORT_META_DATA",
    "META_DATA_",
    "ProcessStreams",
    "TARGET_INFO_SYSTEM_ENV",
)


class TableCheck(NamedTuple):
    """One table: rows in either, how many are equal, the columns that differ or are not read."""

    table: str
    in_report: int
    in_export: int
    equal: int
    differing: list[str]
    not_read: list[str]


def compare_with_export(report: Path, export: Path) -> tuple[list[TableCheck], dict[int, int]]:
    """The tables that either has; and of the report's unknown events the types and counts.

    Raises DamagedError where either cannot be opened.
    """
    ours, theirs = ReportDatabase(report, report.name), SqliteDatabase(export, export.name)
    try:
        checks = list(_compare(ours, theirs))
    finally:
        theirs.close()
    unknown: dict[int, int] = {}
    for (kind, _), count in ours.unknown_events.items():
        unknown[kind] = unknown.get(kind, 0) + count
    return checks, unknown


def _compare(ours: Database, theirs: Database) -> Iterator[TableCheck]:
    for table in sorted({*ours.tables, *theirs.tables}):
        if table.startswith(_NOT_COMPARED):
            continue
        counts = ours.count(table), theirs.count(table)
        have = set(ours.columns(table))
        shared = [column for column in theirs.columns(table) if column in have]
        found, wanted = (_read(db, table, shared) for db in (ours, theirs))
        differing = _list_differing(found, wanted)
        if differing and counts[0] == counts[1]:  # the order of some tables is a hash table's
            found, wanted = found.sort(shared), wanted.sort(shared)
            differing = _list_differing(found, wanted)
        equal = counts[1] if not differing else _count_equal(found, wanted)
        lacking = [column for column in theirs.columns(table) if column not in have]
        rest = theirs.rows(table, lacking) if lacking else pl.DataFrame()
        not_read = [c for c in lacking if rest.get_column(c).null_count() < rest.height]
        yield TableCheck(table, *counts, equal if shared else 0, differing, not_read)


def _read(db: Database, table: str, columns: list[str]) -> pl.DataFrame:
    return db.rows(table, columns).cast(pl.String) if columns else pl.DataFrame()


def _list_differing(found: pl.DataFrame, wanted: pl.DataFrame) -> list[str]:
    if found.height != wanted.height:
        return found.columns
    return [c for c in found.columns if not found.get_column(c).equals(wanted.get_column(c))]


def _count_equal(found: pl.DataFrame, wanted: pl.DataFrame) -> int:
    """Rows that both have, each as often as the one that has it less often."""
    columns = wanted.columns
    counts = [frame.group_by(columns).len() for frame in (found, wanted)]
    both = counts[0].join(counts[1], on=columns, nulls_equal=True)
    return int(both.select(pl.min_horizontal("len", "len_right").sum()).item())
