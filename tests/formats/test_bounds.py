"""Recordings from strangers that ask for more time or memory than they are worth."""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

import pytest

import sightline
from sightline.diagnosis.custom.document import parse
from sightline.errors import InputError
from sightline.formats import _stacks
from support.command import sightline as command
from support.processor_time import takes_at_most

DEEP = 20_000


def folded(path: Path, depth: int) -> Path:
    path.write_text(";".join(f"f{n}" for n in range(depth)) + " 7\nf0;g 1\n")
    return path


def test_views_of_a_database_are_not_asked(tmp_path: Path) -> None:
    """One without end stands where the kernels are looked for."""
    path = tmp_path / "report.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    db.execute(
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
        "(SELECT 1 UNION ALL SELECT start + 1 FROM n) "
        "SELECT start, start + 1 AS end, 0 AS deviceId, 0 AS streamId, "
        "zeroblob(1000000000) AS shortName FROM n"
    )
    db.commit()
    db.close()
    with takes_at_most(20):
        assert command("report", path).code in (0, 2)


@pytest.mark.parametrize("view", ["report", pytest.param("flame", marks=pytest.mark.pages)])
def test_deep_stacks_take_time_in_proportion(tmp_path: Path, view: str) -> None:
    path = folded(tmp_path / "deep.folded", DEEP)
    more = ["-o", tmp_path / "flame.html"] if view == "flame" else []
    with takes_at_most(30):
        outcome = command(view, path, *more)
    assert outcome.code == 0, outcome.err


def test_text_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stacks, "WHOLE_BYTES", 1 << 20)
    path = tmp_path / "bomb.folded.gz"
    path.write_bytes(gzip.compress(b"a;b 1\n" * 1_000_000))
    with pytest.raises(InputError, match="read whole"):
        sightline.open(str(path))


def test_pipe_among_the_facts_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "run.sightline"
    folder.mkdir()
    os.mkfifo(folder / "x.recorded.json")
    os.mkfifo(folder / "rank0-00000000-1.events")
    assert command("report", folder).code == 2


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "{a: " * 30_000])
def test_rules_nested_without_end(text: str) -> None:
    with takes_at_most(10), pytest.raises(InputError):
        parse(text, "rules.yaml")
