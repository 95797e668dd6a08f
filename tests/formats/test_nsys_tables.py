"""Nsight Systems exports as a folder of Parquet or Arrow files: the same run as from SQLite.

tests/formats/test_nsys.py asks that of every export that it writes; here are real and damaged
ones, and what only a folder can be.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sightline as door
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.formats.nvidia import nsys_tables
from sightline.formats.nvidia._nsys.folder import FolderDatabase, write_real
from support.as_folder import assert_same_run, write_folder
from support.campaigns import sample
from support.command import sightline
from synth_nsys import Export, gtid


@pytest.fixture
def export(tmp_path: Path) -> Path:
    e = Export()
    for i in range(300):
        e.api("cudaLaunchKernel", i * 100, i * 100 + 10, i)
        e.kernel(f"kernel_{i % 9}(int)", i * 100 + 20, i * 100 + 80, i)
        e.range(f"step {i}", i * 100, i * 100 + 15, registered=bool(i % 2))
    values = ("doubleValue", "floatValue")
    for i, value in enumerate((0.1, 1e20, -2.5e-7, 3.0, 1e15, 123456789.123, float("inf"))):
        e.range("x", 7 * i, 7 * i + 5, tid=9, **{values[i % 2]: value})
    e.add("NVTX_EVENTS", start=1, eventType=39, text="MPI Rank 3", globalTid=gtid(7, 7))
    return e.write(tmp_path / "e.sqlite")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_either_form_gives_the_same_run(ending, export, tmp_path):
    folder = write_folder(export, tmp_path / f"run [1] of *.{ending}dir", ending)
    run = door.open(str(folder))
    assert run.table("recordings").select("format", "rank").row(0) == ("nsys_tables", 3)
    assert run.table("host_ops").get_column("payload").drop_nulls().len() == 7
    assert_same_run(door.open(str(export)), folder)


@pytest.mark.corpus
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "name", ["GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s", "NVIDIA__Fuser/report1"]
)
def test_a_real_export_gives_the_same_run(name, ending, corpus, tmp_path):
    real = corpus / "nsys" / f"{name}.sqlite"
    folder = write_folder(real, tmp_path / f"run.{ending}dir", ending)
    from_folder, from_sqlite = door.open(str(folder)), door.open(str(real))
    assert_same_run(from_sqlite, folder)
    assert from_folder.ask("breakdown").equals(from_sqlite.ask("breakdown"))


def test_texts_of_reals_are_those_of_sqlite():
    """Of nine digits: of fifteen, SQLite's last one depends on its version."""
    random = Random(5)
    with sqlite3.connect(":memory:") as db:
        for exponent in range(-12, 22):
            for digits in (f"{random.random():.9f}", "1", "0.5", "-3"):
                value = float(f"{digits}e{exponent}")
                (text,) = db.execute("SELECT CAST(? AS TEXT)", (value,)).fetchone()
                assert write_real(value) == text
    db.close()


def test_values_that_are_no_integers_are_counted(tmp_path):
    pl.DataFrame(
        {
            "real": [1.0, 2.5, None, float("nan"), 1e300],
            "text": ["7", "x", None, "-8", ""],
            "whole": pl.Series([1, 2**64 - 1, None, 0, 5], dtype=pl.UInt64),
            "yes": [True, False, None, True, True],
            "raw": [b"1", None, None, None, None],
            "list": [[1], [2], [3], [4], [5]],
        }
    ).write_parquet(tmp_path / "T.parquet")
    db = FolderDatabase(tmp_path, "x")
    assert list(db.columns("T")) == ["real", "text", "whole", "yes", "raw"]
    assert db.ints("T", ["real", "text", "whole", "yes", "raw", "absent"]).rows() == [
        (1, 7, 1, 1, None, None),
        (None, None, -1, 0, None, None),
        (None, None, None, None, None, None),
        (None, -8, 0, 1, None, None),
        (None, None, 5, 1, None, None),
    ]
    assert db.malformed == {"T": 5}
    assert db.rows("T", ["real", "absent"], {"yes": 0}).rows() == [(2.5, None)]
    assert db.rows("T", ["real"], {"absent": 0}).is_empty()
    assert db.ints("T", ["absent", "whole"]).is_empty()


def test_a_damaged_table_is_left_out_and_said(export, tmp_path):
    folder = write_folder(export, tmp_path / "run", "parquet")
    (folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet").write_bytes(b"PAR1 no more")
    run = door.open(str(folder))
    kinds = dict(run.table("quality").select("kind", "text").rows())
    assert "CUPTI_ACTIVITY_KIND_RUNTIME cannot be read and was left out" in kinds["damaged_table"]
    assert run.rows("device_ops") == 300


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_damage_anywhere_is_a_quality_row_or_an_error(ending, export, tmp_path):
    random = Random(3)
    folder = write_folder(export, tmp_path / "run", ending)
    files = sorted(folder.iterdir())
    for _ in sample(range(60), 4):
        path = random.choice(files)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 10, 200))):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged[: random.choice((len(whole), random.randrange(len(whole))))])
        try:
            nsys_tables.read(Source(folder, "run"), ImportOptions())
        except door.SightlineError as error:
            assert "Traceback" not in str(error)
        path.write_bytes(whole)


def test_more_rows_than_a_file_can_hold(export, tmp_path):
    """A column of one value packs to nothing, whatever its length."""
    folder = write_folder(export, tmp_path / "run", "parquet")
    bomb = pl.DataFrame({"start": pl.repeat(1, 20_000_000, dtype=pl.Int64, eager=True)})
    bomb.write_parquet(folder / "OSRT_API.parquet")
    texts = door.open(str(folder)).table("quality").get_column("text").to_list()
    assert any("OSRT_API" in t and "more rows than its size can hold" in t for t in texts)


def test_a_folder_of_broken_tables_is_an_error(tmp_path):
    (tmp_path / "StringIds.parquet").write_bytes(b"nothing")
    outcome = sightline("report", tmp_path)
    assert outcome.code == 2
    assert "none of its tables can be read" in " ".join(outcome.err.split())


def test_tables_of_another_tool_are_an_error(tmp_path):
    pl.DataFrame({"id": [1], "value": ["x"]}).write_parquet(tmp_path / "StringIds.parquet")
    outcome = sightline("report", tmp_path)
    assert outcome.code == 2
    assert "folder of tables, but not an Nsight Systems export" in " ".join(outcome.err.split())
