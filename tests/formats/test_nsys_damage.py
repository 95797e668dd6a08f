"""Exports that are cut off, damaged, foreign or empty: a clear answer, never a traceback."""

from __future__ import annotations

import gzip
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source, zstd
from sightline.formats.nvidia import nsys
from support import fakes
from support.campaigns import sample
from support.command import sightline as command
from support.reports import Report
from synth_nsys import Export, gtid


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    e = Export()
    for i in range(400):
        e.api("cudaLaunchKernel", i * 100, i * 100 + 10, i)
        e.kernel(f"kernel_{i % 9}(int)", i * 100 + 20, i * 100 + 80, i)
        e.range(f"step {i}", i * 100, i * 100 + 15, registered=bool(i % 2))
    e.add("OSRT_API", start=1, end=2, eventClass=27, globalTid=gtid(7, 7), nameId=e.text("read"))
    e.add("SAMPLING_CALLCHAINS", id=1, symbol=e.text("main"), module=e.text("app"), stackDepth=0)
    e.add("COMPOSITE_EVENTS", id=1, start=5, threadState=1, globalTid=gtid(7, 7))
    return e.write(tmp_path_factory.mktemp("whole") / "e.sqlite")


def read(path: Path) -> str:
    """Read it without a cache; what became of it."""
    before = path.read_bytes()
    try:
        imported = nsys.read(Source(path, path.name), ImportOptions())
    except sightline.SightlineError as error:
        assert "Traceback" not in str(error)
        result = f"error: {error}"
    else:
        rows = {n: f.height for n, f in imported.tables.items() if f.height}
        result = f"rows: {rows} {[q.kind for q in imported.quality]}"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208
    return result


def test_cut_off_anywhere(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    path = tmp_path / "cut.sqlite"
    outcomes = []
    for part in sample(range(1, 40), 4):
        path.write_bytes(content[: len(content) * part // 40])
        outcomes.append(read(path))
        if outcomes[-1].startswith("rows"):
            assert "cut_off" in outcomes[-1]
    assert outcomes[0].startswith("error")
    assert any("device_ops" in o for o in outcomes), "the longer ones still have kernels"


def test_damage_anywhere(whole: Path, tmp_path: Path) -> None:
    random = Random(7)
    content = whole.read_bytes()
    path = tmp_path / "flipped.sqlite"
    outcomes = []
    for _ in sample(range(60), 4):
        damaged = bytearray(content)
        for _ in range(random.choice((1, 10, 200))):
            damaged[random.randrange(100, len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        outcomes.append(read(path))
    assert any("device_ops" in outcome for outcome in outcomes), outcomes
    assert all("rows: {} []" not in outcome for outcome in outcomes), "nothing, and no word why"


def test_values_of_the_wrong_type(whole: Path, tmp_path: Path) -> None:
    for column, value in (
        ("start", "'soon'"),
        ("gridX", "1.5"),
        ("end", "NULL"),
        ("demangledName", "x'00ff'"),
        ("deviceId", "'7'"),
        ("start", "9e18"),
        ("end", "-9223372036854775808"),
        ("streamId", "9223372036854775807"),
    ):
        path = tmp_path / "typed.sqlite"
        path.write_bytes(whole.read_bytes())
        db = sqlite3.connect(path)
        db.execute(f'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "{column}" = {value} WHERE rowid = 9')
        db.commit()
        db.close()
        assert read(path).startswith("rows"), column


@pytest.mark.parametrize("rows", ["rowid = 9", "1"])
def test_calls_without_a_start_are_left_out_and_counted(
    whole: Path, tmp_path: Path, rows: str
) -> None:
    path = tmp_path / "timeless.sqlite"
    path.write_bytes(whole.read_bytes())
    db = sqlite3.connect(path)
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        db.execute(f"UPDATE {table} SET start = NULL WHERE {rows}")
    db.commit()
    db.close()
    run = sightline.open(path)
    assert run.table("host_ops").get_column("start_ns").null_count() == 0
    quality = run.table("quality").filter(pl.col("kind") == "missing_times")
    assert quality.get_column("count").to_list() == [800 if rows == "1" else 2]
    assert command("report", path, "-o", tmp_path / "page.html").code == 0


def test_every_table_may_be_missing_or_empty(whole: Path, tmp_path: Path) -> None:
    listed = sqlite3.connect(whole).execute("SELECT name FROM sqlite_master").fetchall()
    for (table,) in listed:
        for sql in (f"DROP TABLE {table}", f"DELETE FROM {table}"):
            path = tmp_path / "less.sqlite"
            path.write_bytes(whole.read_bytes())
            db = sqlite3.connect(path)
            db.execute(sql)
            db.commit()
            db.close()
            assert read(path).startswith("rows"), sql


def test_every_column_may_be_missing(whole: Path, tmp_path: Path) -> None:
    db = sqlite3.connect(whole)
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        for column in sample([r[1] for r in db.execute(f"PRAGMA table_info({table})")], 4):
            path = tmp_path / "narrow.sqlite"
            path.write_bytes(whole.read_bytes())
            other = sqlite3.connect(path)
            other.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
            other.commit()
            other.close()
            assert read(path).startswith("rows"), (table, column)
    db.close()


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "photos.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE albums (id INTEGER)")
    db.commit()
    db.close()
    with pytest.raises(
        sightline.UnknownFormatError, match=r"not an Nsight Systems export \(it has al"
    ):
        sightline.open(str(path))


def test_a_database_without_tables(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (i)")
    db.execute("DROP TABLE t")
    db.commit()
    db.close()
    with pytest.raises(sightline.UnknownFormatError, match="without any table"):
        sightline.open(str(path))
    path.write_bytes(b"")
    with pytest.raises(sightline.DamagedError, match="it is empty"):
        sightline.open(str(path))
    path.write_bytes(b"SQLite format 3\0")
    with pytest.raises(sightline.DamagedError, match="damaged or cut off"):
        sightline.open(str(path))


STREAM = bytes(range(256)) * 8


def test_a_stream_without_its_importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sightline.formats.nvidia.qdstrm.PLACES", ())
    path = tmp_path / "train.qdstrm"
    path.write_bytes(STREAM)
    with pytest.raises(sightline.InputError) as caught:
        sightline.open(path)
    text = str(caught.value)
    assert "QdstrmImporter, which does that, was not found" in text
    assert "QdstrmImporter -i train.qdstrm -o train.nsys-rep\n" in text
    assert text.endswith("sightline train.nsys-rep")


def test_a_stream_is_made_a_report_by_the_importer_beside_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report()
    for i in range(400):
        report.kernel("k", start=10 * i, end=10 * i + 5, correlation=i)
    target, host, data = (tmp_path / n for n in ("target-linux-x64", "host-linux-x64", "data"))
    for folder in (target, host, data):
        folder.mkdir()
    (target / "nsys").touch(0o755)
    fakes.python_program(
        host,
        "QdstrmImporter",
        "import sys\n"
        f"assert open(sys.argv[sys.argv.index('-i') + 1], 'rb').read() == {STREAM!r}\n"
        f"open(sys.argv[sys.argv.index('-o') + 1], 'wb').write({report.content()!r})\n",
    )
    monkeypatch.setenv("PATH", str(target))
    (data / "train.qdstrm").write_bytes(STREAM)
    run = sightline.open(data / "train.qdstrm")
    assert run.rows("device_ops") == 400
    assert os.listdir(data) == ["train.qdstrm"]  # noqa: PTH208
    report.write(data / "train.nsys-rep")
    assert sightline.open(data).rows("device_ops") == 400, "the same recording counts once"
    fakes.python_program(host, "QdstrmImporter", "import sys; sys.exit('wrong version')")
    (data / "other.qdstrm").write_bytes(STREAM + b"x")
    with pytest.raises(sightline.InputError, match="QdstrmImporter failed: wrong version"):
        sightline.open(data / "other.qdstrm")


@pytest.mark.parametrize(
    ("pack", "program"), [(gzip.compress, "gunzip"), (zstd.compress, "unzstd")]
)
def test_packed_export_or_report_is_told_how_to_unpack(
    whole: Path, tmp_path: Path, pack: Callable[[bytes], bytes], program: str
) -> None:
    for name, content in (("e.sqlite", whole.read_bytes()), ("r.nsys-rep", Report().content())):
        path = tmp_path / f"{name}.packed"
        path.write_bytes(pack(content))
        with pytest.raises(sightline.InputError, match="it is compressed with") as raised:
            sightline.open(path)
        assert f"Decompress it first:  {program} --keep " in str(raised.value)


def test_kernels_whose_time_was_not_collected_are_left_out(tmp_path: Path) -> None:
    """CUPTI writes 0 for both; a session counts from its own begin, so 0 is no far time."""
    e = Export()
    for n in range(10):
        e.api("cudaLaunchKernel", 1000 * n + 100, 1000 * n + 110, n)
        e.kernel("gemm", 0 if n < 3 else 1000 * n + 200, 0 if n < 3 else 1000 * n + 700, n)
    run = sightline.open(str(e.write(tmp_path / "e.sqlite")))
    [row] = run.ask("breakdown").to_dicts()
    assert (row["window_ns"], row["compute_ns"]) == (6_500, 3_500)
    noted = run.table("quality").filter(pl.col("kind") == "impossible_times")
    assert noted.get_column("count").to_list() == [3]
