"""What the first 64 kB show is judged, and their end is not an end of a line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sightline
from sightline.core.model.source import HEAD_BYTES, Source
from sightline.opening.recognise import match_importers, recognise
from support.traces import kernel, launched, write
from synth_nsys import Export


@pytest.mark.parametrize("shift", range(60))
def test_text_with_a_semicolon_near_the_cut_is_still_json(tmp_path: Path, shift: int) -> None:
    """A Kineto trace whose first line ends nowhere near: the cut falls behind '; 3'."""
    text = "a;b 3 "
    padding = "x" * (HEAD_BYTES - 45 - shift)
    document = {"deviceProperties": [], "pad": padding, "note": text * 20, "traceEvents": []}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    assert recognise(Source(path, "trace.json")).name == "kineto"


@pytest.mark.parametrize("first", ["[unknown]", "{lambda}", "[kernel.kallsyms]"])
def test_frames_in_brackets_are_still_stacks(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.folded"
    path.write_text(f"{first};main;work 12\n")
    assert recognise(Source(path, "a.folded")).name == "collapsed"


@pytest.mark.parametrize("size", [HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1])
def test_one_line_of_stacks_as_long_as_the_head(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.folded"
    path.write_text("main;work 1\n" + "main;" + "w" * (size - 20) + " 1")
    assert recognise(Source(path, "a.folded")).name == "collapsed"


@pytest.fixture
def late_names(tmp_path: Path) -> Path:
    """An export whose tables were made last: their names lie behind the first 64 kB."""
    export = Export()
    export.kernel("k", 1_000, 2_000, 1)
    made = export.write(tmp_path / "made.sqlite")
    path = tmp_path / "folder" / "late.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(path)) as target:
        target.execute("PRAGMA page_size = 512")
        target.execute("CREATE TABLE first (text TEXT)")
        target.execute("INSERT INTO first VALUES (?)", ["x" * 2 * HEAD_BYTES])
        target.executescript("\n".join(source.iterdump()))
    assert b"CUPTI_ACTIVITY" not in path.read_bytes()[:HEAD_BYTES]
    return path


def test_tables_whose_names_lie_behind_the_head(late_names: Path) -> None:
    matching = match_importers(Source(late_names, "late.sqlite"), "strong")
    assert [importer.name for importer in matching] == ["nsys"]


def test_such_a_file_beside_another_recording_is_read(late_names: Path) -> None:
    write(late_names.parent, launched(0, kernel("k", 10, 5)))
    run = sightline.open(str(late_names.parent))
    assert run.rows("device_ops") == 2


def test_a_damaged_schema_says_nothing(late_names: Path) -> None:
    late_names.write_bytes(late_names.read_bytes()[:20] + b"\xff" * 3 * HEAD_BYTES)
    assert match_importers(Source(late_names, "late.sqlite"), "strong") == []
