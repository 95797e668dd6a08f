"""Exports of 2020, which say nothing of their session, with ranges and system calls alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import sightline
from sightline.errors import UnknownFormatError

THREAD = (291_899 << 24) | 77


def export(path: Path, *, texts: str = "StringIds") -> Path:
    """Two ranges and a call that sleeps in one of them."""
    with sqlite3.connect(path) as db:
        db.executescript(
            f"CREATE TABLE {texts} (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, "
            "rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, "
            "endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
            "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, "
            "globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, "
            "nestingLevel INTEGER, callchainId INTEGER);"
        )
        db.execute(f"INSERT INTO {texts} VALUES (1, 'select')")
        insert = (
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) "
            "VALUES (?, ?, 59, ?, ?, 0)"
        )
        db.execute(insert, (1_000, 9_000_000, "f", THREAD))
        db.execute(insert, (2_000, 8_000_000, "loop", THREAD))
        db.execute("INSERT INTO OSRT_API VALUES (3000, 7000000, 27, ?, 0, 1, 0, 0, 0)", (THREAD,))
    return path


def test_its_ranges_and_calls_are_read(tmp_path: Path) -> None:
    run = sightline.open(str(export(tmp_path / "quickstart.sqlite")))
    rows = run.table("host_ops").sort("start_ns").select("name", "start_ns", "end_ns").rows()
    assert [(name, end - start) for name, start, end in rows] == [
        ("f", 8_999_000),
        ("loop", 7_998_000),
        ("select", 6_997_000),
    ]


def test_a_table_of_that_name_alone_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="not an Nsight Systems export"):
        sightline.open(str(export(tmp_path / "other.sqlite", texts="Words")))
