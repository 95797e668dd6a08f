"""The SQLite export of an Nsight Systems report, as nsys writes it, on a machine without nsys.

Scripts and recipes that read the export run on it. It is written from the report itself, so that
nothing of its events is lost on the way; the other formats have no such export.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sightline.core.model.run import Run
from sightline.core.whole_file import write_beside
from sightline.errors import InputError, MissingDataError
from sightline.formats.nvidia._nsys.report import container, export
from sightline.views.exports._exporter import Exporter

EXPORTER = Exporter(
    name="nsys_sqlite",
    label="the SQLite export of an Nsight Systems report (.nsys-rep)",
    suffix=".sqlite",
    loses="environment, host names, printed output, and processes that did nothing",
)


def write(run: Run, target: Path) -> list[Path]:
    """Write the database. Raises MissingDataError where the run is not of one report."""
    paths = [Path(path) for path in run.table("recordings").get_column("path")]
    if len(paths) != 1 or not paths[0].is_file() or not container.is_report(paths[0]):
        raise MissingDataError(
            "there is nothing to export as nsys-sqlite",
            why="it is written from one Nsight Systems report, which must still be where it was",
            hint="sightline export REPORT.nsys-rep --to nsys-sqlite -o REPORT.sqlite",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with write_beside(target) as part:
            export.write_export(paths[0], part)
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"cannot write {target}", why=str(error)) from error
    return [target]
