"""Reads a report, or an export in whichever of its forms; tells one of another database apart."""

from __future__ import annotations

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError, UnknownFormatError
from sightline.formats.nvidia._nsys import tables, target
from sightline.formats.nvidia._nsys.database import Database, SqliteDatabase
from sightline.formats.nvidia._nsys.folder import FolderDatabase
from sightline.formats.nvidia._nsys.report.container import is_report
from sightline.formats.nvidia._nsys.report.database import ReportDatabase

# Any of these makes it an export; the first is in all that were seen from 2021 on.
_OWN_TABLES = ("TARGET_INFO_SESSION_START_TIME", "META_DATA_EXPORT", "EXPORT_META_DATA")
# Versions of 2020 say nothing of the session: their texts beside one of their tables of events.
_TEXTS = "StringIds"
_EVENT_TABLES = ("OSRT_API", "NVTX_EVENTS", "SCHED_EVENTS", "COMPOSITE_EVENTS", "PROFILER_OVERHEAD")


def read_export(source: Source, options: ImportOptions) -> Imported:
    """Read an export, a SQLite file or a folder of tables, or a report, as far as it is intact.

    Raises DamagedError where it cannot be opened, UnknownFormatError where it is another's.
    """
    db = _open_database(source)
    try:
        names = db.tables
        own = any(name in names for name in _OWN_TABLES)
        own = own or (_TEXTS in names and any(name in names for name in _EVENT_TABLES))
        if not own and not any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in names):
            raise _foreign(db, source.given)
        imported = tables.build_tables(db, target.read_metadata(db), options)
        if (db.cut_off or db.lost) and all(f.is_empty() for f in imported.tables.values()):
            raise DamagedError(
                f"cannot read {source.given}",
                why="the file is cut off or damaged before its first event",
                hint=db.again,
            )
        return imported
    finally:
        db.close()


def _open_database(source: Source) -> Database:
    path = source.plain_path()
    if path.is_dir():
        return FolderDatabase(path, source.given)
    form = ReportDatabase if is_report(path) else SqliteDatabase
    return form(path, source.given)


def _foreign(db: Database, given: str) -> UnknownFormatError:
    names = db.tables
    if not names:
        return UnknownFormatError(
            f"cannot read {given}", why=f"it is {db.form} without any table", hint=db.again
        )
    listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return UnknownFormatError(
        f"cannot read {given}",
        why=f"it is {db.form}, but not an Nsight Systems export (it has {listed})",
        hint="sightline formats  lists what can be read.",
    )
