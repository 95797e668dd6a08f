"""What is missing of a recording is said, wherever it is cut."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import sightline
from formats.test_stack_formats import PERF, ROCPROF_JSON
from sightline.core.model import event_file as f
from sightline.core.model.declare import Quality
from sightline.core.model.perf_text import BEGIN, END
from sightline.errors import SightlineError
from sightline.formats._json import parse_json
from sightline.record.collect.finishing import trim_trace
from sightline.record.inline.recorder import Recorder, end, now
from support.campaigns import sample
from synth_nsys import Export


def make_events(path: Path, *, ended: bool) -> bytes:
    """Forty ranges, as they lie on the disk after the recording."""
    file = Recorder(path)
    for n in range(40):
        chunk, at = file.begin(file.name(f"range {n}"), now())
        end(chunk, at, now(), f.RANGE)
    if ended:
        file.close()
    trim_trace(path)
    return path.read_bytes()


def said(path: Path) -> set[str]:
    quality = (
        sightline.open(str(path))
        .table("quality")
        .filter(sightline.open(str(path)).table("quality")["severity"] != "info")
    )
    return set(quality["kind"].to_list())


@pytest.mark.parametrize("ended", [True, False])
def test_every_cut_of_an_event_file_is_said(tmp_path: Path, ended: bool) -> None:
    path = tmp_path / "rank0.events"
    data = make_events(path, ended=ended)
    assert "truncated" not in said(path)
    for cut in sample(range(f.SLOT, len(data)), 101):
        path.write_bytes(data[:cut])
        try:
            assert "truncated" in said(path), cut
        except SightlineError:
            assert cut < f.FIRST_EVENT * f.SLOT


def test_every_cut_of_our_samples_of_perf_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cpu.perf.txt"
    text = f"{BEGIN}\n{PERF}{END}\n"
    path.write_text(text)
    assert "truncated" not in said(path)
    for cut in sample(range(len(text) - len(END) - 2, 40, -1), 3):
        path.write_text(text[:cut])
        try:
            assert said(path) & {"truncated"}, cut
        except SightlineError:
            continue  # too little to know what it is, or no sample in it


def test_cut_inside_a_sample_of_perf_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cpu.perf.txt"
    path.write_text(PERF)
    assert "truncated" not in said(path)
    path.write_text(PERF[:-30])
    assert "truncated" in said(path)


def test_rocprof_json_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "pc.json"
    text = json.dumps(ROCPROF_JSON)
    read = 0
    for cut in range(40, len(text), 7):
        path.write_text(text[:cut])
        try:
            assert "truncated" in said(path), cut
            read += 1
        except SightlineError:
            continue
    assert read


def test_speedscope_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.speedscope.json"
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "main"}, {"name": "work"}]},
        "profiles": [
            {
                "type": "sampled", "name": "t", "unit": "none",
                "weights": [1] * 50, "samples": [[0, n % 2] for n in range(50)],
            }
        ],
    }  # fmt: skip
    text = json.dumps(document)
    path.write_text(text[:-100])
    run = sightline.open(str(path))
    assert 30 <= run.table("stack_weights")["value"].sum() < 50
    assert "truncated" in said(path)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"a": [1, 2, 3', {"a": [1, 2]}),
        ('{"a": [1, 2], "b', {"a": [1, 2]}),
        ('{"a": {"b": "c"}, "d": {"e": ', {"a": {"b": "c"}, "d": {}}),
        ('{"a": "b\\"c", "d": "e', {"a": 'b"c'}),
        ('[{"a": 1}, {"a": tru', [{"a": 1}, {}]),
        ("[1, 2, x, 4]", [1, 2]),
    ],
)
def test_json_is_read_up_to_the_damage(text: str, want: object) -> None:
    quality: list[Quality] = []
    assert parse_json(text, quality) == want
    assert [q.kind for q in quality] == ["truncated"]


def test_rows_in_the_log_of_a_database_are_read(tmp_path: Path) -> None:
    """Committed, and not yet in the file: SQLite's -wal. Nothing beside the recording changes."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 90, 1)
    export.kernel("k", 100, 800, 1)
    path = export.write(tmp_path / "run.sqlite")
    assert sightline.open(str(path)).rows("device_ops") == 1
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    columns = [r[1] for r in db.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
    values = ", ".join(
        {"start": "start + 1000", "end": '"end" + 1000'}.get(c, f'"{c}"') for c in columns
    )
    db.execute(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT {values} FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    db.commit()
    log = path.with_name("run.sqlite-wal")
    before = path.read_bytes(), log.read_bytes()
    assert sightline.open(str(path)).rows("device_ops") == 2
    assert (path.read_bytes(), log.read_bytes()) == before
    db.close()
