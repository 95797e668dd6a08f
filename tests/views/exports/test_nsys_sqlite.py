"""A report as the SQLite database that nsys exports."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import sightline
from sightline.core import registry
from support import traces
from support.command import sightline as command
from support.corpus import list_recordings, name_recording
from support.reports import OSRT, PROCESS, Report

PAIRS = [
    path for path in list_recordings("nsys/**/*.nsys-rep") if path.with_suffix(".sqlite").exists()
]
# What says who recorded: other processes, strings that no row names, ids, the export's own facts.
HIDDEN = {
    "ANALYSIS_FILE",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "PROCESSES",
    "ProcessStreams",
    "StringIds",
    "TARGET_INFO_NIC_INFO",
    "TARGET_INFO_SYSTEM_ENV",
    "ThreadNames",
}


# Labels that newer versions of nsys spell otherwise, by their ids.
RENAMED = {
    "ENUM_NSYS_EVENT_CLASS": {62, 63, 64, 83, 84, 85, 86, 87, 88},
    "ENUM_NSYS_EVENT_TYPE": {107, 124, 125, 146},
}


def write_report(folder: Path) -> Path:
    report = Report(environment={"AWS_SECRET": "hunter2"})
    report.call("cudaLaunchKernel_v7000", start=1, end=3, correlation=1)
    report.kernel("saxpy", start=5, end=9, correlation=1)
    report.call("read", start=2, end=3, kind=OSRT, frames=[("read", "/home/ann/libc.so")])
    report.range("step", start=0, end=10, fields={8: {3: 0.5}})
    report.event(27, 113, {2: PROCESS, 6: "app"})
    report.event(27, 113, {2: PROCESS + (9 << 24), 6: "mysqld"})
    report.event(49, 110, {1: {1: 3}, 3: 2, 4: "wrote /home/ann/x", 5: PROCESS})
    report.streams = [{1: PROCESS, 2: report.text("out"), 3: report.text("swordfish")}]
    return report.write(folder / "run.nsys-rep")


def select(path: Path, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path)
    rows = db.execute(query).fetchall()
    db.close()
    return rows


def test_scripts_find_tables_and_rows(tmp_path: Path) -> None:
    target = tmp_path / "run.sqlite"
    words = ("export", write_report(tmp_path), "--to", "nsys-sqlite", "-o", target)
    assert command(*words).code == 0
    assert select(
        target,
        "SELECT s.value, k.end - k.start, k.gridX, k.graphNodeId, r.start "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName "
        "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)",
    ) == [("saxpy", 4, 2, None, 1)]
    calls = (
        "SELECT e.label FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
        "JOIN ENUM_NSYS_EVENT_CLASS e ON e.id = r.eventClass"
    )
    assert select(target, calls) == [("CUDA runtime",)]
    nvtx = "SELECT rowid, text, doubleValue, jsonText FROM NVTX_EVENTS"
    assert select(target, nvtx) == [(1, "step", 0.5, None)]
    assert select(target, "SELECT name FROM PROCESSES") == [("app",)]
    assert select(target, "SELECT text FROM DIAGNOSTIC_EVENT") == [("wrote /home/…/x",)]
    content = target.read_bytes()
    for secret in (b"hunter2", b"swordfish", b"mysqld", b"secret-host"):
        assert secret not in content, secret


def test_the_export_is_read_as_the_report_is(tmp_path: Path) -> None:
    report, target = write_report(tmp_path), tmp_path / "again.sqlite"
    assert command("export", report, "--to", "nsys-sqlite", "-o", target).code == 0
    ours, again = sightline.open(str(report)), sightline.open(str(target))
    for table in registry.list_names("tables"):
        if table != "recordings":
            assert_frame_equal(ours.table(table), again.table(table))


def test_another_recording_has_no_such_export(tmp_path: Path) -> None:
    trace = traces.write_text(tmp_path, traces.text_of([traces.kernel("k", 1, 2)]))
    outcome = command("export", trace, "--to", "nsys-sqlite", "-o", tmp_path / "x.sqlite")
    assert outcome.code == 2
    assert "there is nothing to export as nsys-sqlite" in outcome.err
    assert not (tmp_path / "x.sqlite").exists()


@pytest.mark.corpus
@pytest.mark.parametrize("path", PAIRS, ids=name_recording)
def test_rows_are_those_of_the_vendors_export(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours.sqlite"
    assert command("export", path, "--to", "nsys-sqlite", "-o", target).code == 0
    theirs = path.with_suffix(".sqlite")
    names = select(theirs, "SELECT name FROM sqlite_master WHERE type = 'table'")
    for (table,) in names:
        if table in HIDDEN or table.startswith("ENUM_"):
            continue
        columns = [f'"{row[1]}"' for row in select(theirs, f"PRAGMA table_info({table})")]
        hidden = {"TARGET_INFO_GPU": '"uuid"', "DIAGNOSTIC_EVENT": '"text"'}.get(table)
        have = {f'"{row[1]}"' for row in select(target, f"PRAGMA table_info({table})")}
        shared = ", ".join(c for c in columns if c in have and c != hidden)
        query = f"SELECT {shared} FROM {table}"
        found, wanted = select(target, query), select(theirs, query)
        if table == "MPI_RANKS":  # in the order of a hash table
            found, wanted = sorted(found), sorted(wanted)
        assert found == wanted, table
        # Old files have a column that no newer one has, and no value in it.
        for column in set(columns) - have:
            assert select(theirs, f"SELECT count({column}) FROM {table}") == [(0,)], (table, column)


@pytest.mark.corpus
@pytest.mark.parametrize("path", PAIRS, ids=name_recording)
def test_enumerations_mean_what_the_vendors_do(path: Path, tmp_path: Path) -> None:
    """Of schema 3.25 every row; of older exports, some with other names, the labels."""
    target, theirs = tmp_path / "ours.sqlite", path.with_suffix(".sqlite")
    assert command("export", path, "--to", "nsys-sqlite", "-o", target).code == 0
    names = "SELECT name FROM sqlite_master WHERE type = 'table'"
    given = {name for (name,) in select(theirs, names)}
    shared = {name for (name,) in select(target, names)} & {n for n in given if n[:5] == "ENUM_"}
    assert bool(shared) == any(name.startswith("ENUM_") for name in given)
    version = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
    newest = "META_DATA_EXPORT" in given and select(theirs, version) == [("3.25.0",)]
    for table in shared:
        query = f"SELECT id, label{', name' if newest else ''} FROM {table}"
        missing = {row[0] for row in set(select(theirs, query)) - set(select(target, query))}
        assert missing <= (set() if newest else RENAMED.get(table, set())), table
