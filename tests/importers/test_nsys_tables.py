"""Nsight Systems exports as a folder of Parquet or Arrow files: the same run as from SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sightline as door
from support.command import sightline

TABLES = ("device_ops", "host_ops", "syncs", "devices", "threads")


def as_folder(export: Path, folder: Path, ending: str) -> Path:
    """The tables of a SQLite export, one file each, written without sightline."""
    folder.mkdir()
    with sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True) as database:
        names = [
            n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for name in names:
            cursor = database.execute(f'SELECT * FROM "{name}"')
            columns = [c[0] for c in cursor.description]
            rows = cursor.fetchall()
            try:
                frame = pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)
            except (TypeError, pl.exceptions.PolarsError):
                continue  # a column of mixed types, which a typed file cannot have
            target = folder / f"{name}.{ending}"
            frame.write_parquet(target) if ending == "parquet" else frame.write_ipc(target)
    database.close()
    return folder


@pytest.mark.corpus
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_equals_the_sqlite_export(corpus, ending, tmp_path):
    export = corpus / "nsys/GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite"
    folder = as_folder(export, tmp_path / f"run.{ending}dir", ending)
    from_folder, from_sqlite = door.open(str(folder)), door.open(str(export))
    assert from_folder.table("recordings").item(0, "format") == "nsys_tables"
    for name in TABLES:
        assert_frame_equal(from_folder.table(name), from_sqlite.table(name))
    assert from_folder.ask("breakdown").equals(from_sqlite.ask("breakdown"))


def test_a_damaged_table_is_left_out_and_said(corpus, tmp_path):
    export = corpus / "nsys/GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite"
    folder = as_folder(export, tmp_path / "run", "parquet")
    (folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet").write_bytes(b"PAR1 no more")
    run = door.open(str(folder))
    kinds = dict(run.table("quality").select("kind", "text").rows())
    assert "CUPTI_ACTIVITY_KIND_MEMCPY" in kinds["damaged_table"]
    assert run.rows("device_ops") > 0


def test_a_folder_of_broken_tables_is_an_error(tmp_path):
    (tmp_path / "StringIds.parquet").write_bytes(b"nothing")
    outcome = sightline("report", tmp_path)
    assert outcome.code == 2
    assert "none of its tables can be read" in " ".join(outcome.err.split())
