"""`sightline doctor --check-nsys-rep`: a report against its export, told without its content."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from support import fakes
from support.command import sightline as command
from support.reports import OSRT, THREAD, Report


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two calls, one with another end in the export, which also has a column that is not read."""
    report = Report()
    report.call("read", start=1, end=2, kind=OSRT)
    report.call("secret_name", start=3, end=4, kind=OSRT)
    report.event(41, 106, {1: 5, 3: 0, 4: 1, 6: THREAD})
    export = tmp_path / "run.sqlite"
    db = sqlite3.connect(export)
    db.execute(
        "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, extra INTEGER)"
    )
    db.execute("INSERT INTO OSRT_API VALUES (3, 4, ?, NULL), (1, 999, ?, 7)", (THREAD, THREAD))
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.execute("INSERT INTO StringIds VALUES (0, 'read'), (1, 'secret_name')")
    db.commit()
    db.close()
    return report.write(tmp_path / "run.nsys-rep"), export


def test_what_differs_is_said_without_content(pair: tuple[Path, Path]) -> None:
    outcome = command("doctor", "--check-nsys-rep", *pair)
    assert outcome.code == 1
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["OSRT_API", "2", "2", "1"] in lines
    assert ["differs:", "end"] in lines
    assert ["not", "read:", "extra"] in lines
    assert ["SCHED_EVENTS", "1", "none"] in lines
    assert ["StringIds", "2", "2", "2"] in lines
    assert "secret_name" not in outcome.out
    assert "999" not in outcome.out
    facts = json.loads(command("doctor", "--json", "--check-nsys-rep", *pair).out)
    assert facts["equal"] is False


def test_equal_rows_in_another_order(pair: tuple[Path, Path]) -> None:
    report, export = pair
    db = sqlite3.connect(export)
    db.execute("UPDATE OSRT_API SET end = start + 1")
    db.commit()
    db.close()
    outcome = command("doctor", "--check-nsys-rep", report, export)
    assert outcome.code == 0
    assert outcome.out.endswith("All rows of the export are equal.\n")


def test_unknown_events_are_counted(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    report = Report()
    report.event(58, 250, {1: 5})
    outcome = command("doctor", "--check-nsys-rep", report.write(tmp_path / "x.nsys-rep"), pair[1])
    assert outcome.code == 1
    assert "1 event of type 58, which is not known" in outcome.out


def test_the_export_is_made_by_the_nsys_that_is_there(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    report, export = pair
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    missing = command("doctor", "--check-nsys-rep", report)
    assert missing.code == 2
    assert "`nsys`, which does that, is not on the PATH" in missing.err
    copy = f"shutil.copy({str(export)!r}, sys.argv[sys.argv.index('--output') + 1])"
    fakes.python_program(folder, "nsys", f"import shutil, sys\n{copy}\n")
    assert "OSRT_API" in command("doctor", "--check-nsys-rep", report).out
    fakes.python_program(folder, "nsys", "import sys\nsys.exit('made by a newer version')\n")
    failed = command("doctor", "--check-nsys-rep", report)
    assert failed.code == 2
    assert "`nsys export` failed: made by a newer version" in failed.err
