"""Real reports against the exports that nsys itself made of them, and against what they declare."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import sightline
from sightline.core import registry
from sightline.core.model.declare import Finding
from sightline.formats.nvidia._nsys import no_device, reading
from sightline.formats.nvidia._nsys.report.database import ReportDatabase
from support.corpus import list_recordings, name_recording
from support.differences import UNKNOWN_EVENTS, compare_figures

pytestmark = pytest.mark.corpus

REPORTS = list_recordings("nsys/**/*.nsys-rep")
PAIRS = [path for path in REPORTS if path.with_suffix(".sqlite").exists()]
# Not in the reader: what was asked for, the export itself, and what a program printed.
NOT_READ = {
    "ANALYSIS_FILE",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "ProcessStreams",
    "TARGET_INFO_SYSTEM_ENV",
}
UNORDERED = {"MPI_RANKS"}  # the exporter writes them in the order of a hash table


@cache
def read(path: Path) -> ReportDatabase:
    return ReportDatabase(path, path.name)


def exported(path: Path) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
    """Each table of the export beside a report: name, columns, rows."""
    export = path.with_suffix(".sqlite")
    db = sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in names:
        if not name.startswith("ENUM_"):
            cursor = db.execute(f"SELECT * FROM {name}")
            yield name, [c[0] for c in cursor.description], cursor.fetchall()
    db.close()


@pytest.mark.parametrize("path", PAIRS, ids=name_recording)
def test_every_row_of_every_table_is_the_exports(path: Path) -> None:
    db = read(path)
    rows_compared = 0
    for table, columns, rows in exported(path):
        if table in NOT_READ:
            continue
        have = [c for c in columns if c in db.columns(table)]
        found = db.rows(table, have).rows()
        wanted = [
            tuple(value for c, value in zip(columns, row, strict=True) if c in have) for row in rows
        ]
        if table in UNORDERED:
            found, wanted = sorted(found), sorted(wanted)
        assert found == wanted, table
        # What is not read had no value in the export either.
        for place, column in enumerate(columns):
            if column not in have:
                assert {row[place] for row in rows} <= {None}, (table, column)
        rows_compared += len(rows)
    assert rows_compared > 300


@pytest.mark.parametrize("path", PAIRS, ids=name_recording)
def test_what_is_read_of_the_system_is_the_exports(path: Path) -> None:
    """A few of its properties: the others say whose machine it is."""
    found = set(read(path).rows("TARGET_INFO_SYSTEM_ENV", ["name", "value"]).rows())
    stated = {
        (row[columns.index("name")], row[columns.index("value")])
        for table, columns, rows in exported(path)
        if table == "TARGET_INFO_SYSTEM_ENV"
        for row in rows
    }
    assert found == {pair for pair in stated if pair[0] in {name for name, _ in found}}
    assert {"SoftwareReleaseVersion"} <= {name for name, _ in found} or not stated


@pytest.mark.parametrize("path", REPORTS, ids=name_recording)
def test_a_report_holds_as_much_as_it_declares(path: Path) -> None:
    db = read(path)
    counted, declared = db._events.counted, db._container.counts
    assert counted["events"] == declared.events
    assert db.count("StringIds") == declared.strings
    assert db.count("ThreadNames") == declared.thread_names
    unknown = dict(counted["unknown"])
    compare_figures(path, UNKNOWN_EVENTS, unknown, {})
    told = sum(q.count for q in db.limits if q.kind == "unknown_events")
    assert told == sum(unknown.values())
    assert not counted["damaged_events"]
    assert not db.cut_off


def test_every_gpu_operation_of_a_report_without_export_has_its_call(corpus: Path) -> None:
    """GTLS report3: nothing of it was seen in an export, so it is checked against itself."""
    path = corpus / "nsys/tomarriott__GTLS/report3.nsys-rep"
    ops = sightline.open(str(path)).table("device_ops")
    calls = sightline.open(str(path)).table("host_ops").select("host_op_id", call="start_ns")
    joined = ops.join(calls, left_on="launch_id", right_on="host_op_id")
    assert joined.height == ops.height == 28_292
    assert joined.filter(joined["start_ns"] <= joined["call"]).is_empty()


class AsExported(ReportDatabase):
    """A report of which only the tables and columns that its export has are seen.

    Old exporters leave out CUPTI's overhead (until 2025.5), thread states and messages.
    """

    def __init__(self, path: Path, given: str) -> None:
        super().__init__(path, given)
        self.seen = {table: columns for table, columns, _ in exported(path)}
        # Of these the reader makes its own, in the same tables.
        self.seen |= {"META_DATA_EXPORT": ["name", "value"]}

    @property
    def tables(self) -> list[str]:
        return [name for name in super().tables if name in self.seen]

    def columns(self, table: str) -> list[str]:
        return [c for c in super().columns(table) if c in self.seen.get(table, ())]

    def is_integer(self, table: str, column: str) -> bool:
        return column in self.columns(table) and super().is_integer(table, column)

    def count(self, table: str) -> int:
        return super().count(table) if table in self.seen else 0

    def rows(self, table: str, wanted: Any, where: Any = None) -> Any:
        found = super().rows(table, wanted, where)
        return found if table in self.seen else found.clear()


@pytest.mark.parametrize("path", PAIRS, ids=name_recording)
def test_answers_are_those_of_the_export(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table, analysis and finding, of the report and of its export."""
    monkeypatch.setattr(reading, "ReportDatabase", AsExported)
    # The machine's driver and kernel are told in exports alone.
    monkeypatch.setattr(no_device, "read_system", lambda db: {})
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    ours, theirs = sightline.open(str(path)), sightline.open(str(path.with_suffix(".sqlite")))
    for table in registry.list_names("tables"):
        # What is said of the file itself is another: its name, size, form, and tool's version.
        if table != "recordings":
            assert_frame_equal(ours.table(table), theirs.table(table))
    answered = 0
    for analysis in registry.list_names("analyses"):
        try:
            wanted = theirs.ask(analysis)
        except sightline.SightlineError:
            with pytest.raises(sightline.SightlineError):
                ours.ask(analysis)
            continue
        assert_frame_equal(ours.ask(analysis), wanted)
        answered += 1
    assert _forget_ending(ours.findings()) == _forget_ending(theirs.findings())
    assert answered >= 5


def _forget_ending(found: list[Finding]) -> list[Finding]:
    """The findings without the ending of the file that a person is told to record next."""
    return [replace(f, verify=(f.verify or "").replace(".nsys-rep", ".sqlite")) for f in found]
