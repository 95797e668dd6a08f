"""A recording is asked while it is written to the cache, and nobody sees a difference."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.answer.cache import identify_run, keep_part
from sightline.core.model import parts, unwritten
from sightline.core.model.store import read_facts
from sightline.errors import StoreError
from sightline.opening import cache, imports, recording
from support import traces as t

EVENTS = [t.op(f"op{i % 7}", i, 1) for i in range(2000)]


@pytest.fixture(autouse=True)
def hold_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Recordings of any size are held, in parts as those of millions of rows."""
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 700)
    monkeypatch.setattr(recording, "HELD_ROWS", (0, 10_000))
    yield
    unwritten.finish_writing()
    unwritten._unwritten.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is written until it is set."""
    opened, write = threading.Event(), cache.keep_entry

    def wait(name: str, content: str | None, make: Callable[[Path], None]) -> Path:
        opened.wait(20)
        return write(name, content, make)

    monkeypatch.setattr(cache, "keep_entry", wait)
    yield opened
    opened.set()


def test_tables_are_the_same_before_and_after(tmp_path: Path, gate: threading.Event) -> None:
    path = t.write(tmp_path, EVENTS)
    run = sightline.open(str(path))
    store = run.parts[0].store
    assert not store.exists()
    early = {name: run.table(name) for name in run.present()}
    facts = read_facts(store)
    gate.set()
    unwritten.finish_writing()
    assert read_facts(store) == facts
    cache.forget_use()
    again = sightline.open(str(path))
    assert again.parts[0].store == store
    assert again.present() == list(early)
    assert all(again.table(name).equals(frame) for name, frame in early.items())
    assert early["host_ops"].height == len(EVENTS)


def test_columns_of_one_value_are_facts_and_stay_columns(tmp_path: Path) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    constants = run.parts[0].facts["constants"]["host_ops"]
    assert constants.keys() >= {"pid", "tid"}
    assert "pid" not in pl.read_parquet_schema(run.parts[0].file("host_ops"))
    ops = run.table("host_ops", ["pid", "tid", "name"])
    assert ops.schema["pid"] == pl.Int64
    assert ops.select("pid", "tid").unique().rows() == [(constants["pid"], constants["tid"])]


def test_who_needs_the_files_waits_for_them(tmp_path: Path, gate: threading.Event) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    threading.Timer(0.05, gate.set).start()
    assert run.parts[0].file("host_ops").is_file()


def test_worker_gets_a_run_whose_files_are_written(tmp_path: Path, gate: threading.Event) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    threading.Timer(0.05, gate.set).start()
    sent = pickle.dumps(run)
    assert run.parts[0].store.exists()
    assert pickle.loads(sent).table("host_ops").equals(run.table("host_ops"))


def test_second_recording_waits_for_the_first(tmp_path: Path, gate: threading.Event) -> None:
    first = sightline.open(str(t.write(tmp_path, EVENTS, "a.json")))
    threading.Timer(0.05, gate.set).start()
    sightline.open(str(t.write(tmp_path, EVENTS[:-1], "b.json")))
    assert first.parts[0].store.exists()


def test_same_recording_is_not_read_twice(tmp_path: Path, gate: threading.Event) -> None:
    path = t.write(tmp_path, EVENTS)
    first = sightline.open(str(path))
    # A second import would wait for the first one to be written.
    second = sightline.open(str(path))
    assert not gate.is_set()
    assert second.parts[0].store == first.parts[0].store
    assert second.table("host_ops").equals(first.table("host_ops"))


def test_full_disk_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*given: object) -> Path:
        raise StoreError("cannot write to the cache", why="no space left on device")

    monkeypatch.setattr(cache, "keep_entry", refuse)
    monkeypatch.setattr(imports, "replace_cache_folder", refuse)
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    unwritten.finish_writing()
    assert run.table("host_ops").height == len(EVENTS)
    assert "nothing is cached" in caplog.text
    assert "no space left" in caplog.text
    with pytest.raises(StoreError):
        identify_run(run)
    monkeypatch.setattr("sightline.answer.cache.MIN_ROWS", 0)
    assert keep_part(run, "", lambda: {"one": (1, 2)}) == {"one": [1, 2]}


def test_full_cache_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, write = tmp_path / "full", cache.keep_entry

    def refuse_once(name: str, content: str | None, make: Callable[[Path], None]) -> Path:
        if not full.exists():
            full.touch()
            raise StoreError("cannot write to the cache", why="no space left on device")
        return write(name, content, make)

    monkeypatch.setattr(cache, "keep_entry", refuse_once)
    monkeypatch.setattr("sightline.core.model.cache_folder._instead", {})
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    place = run.parts[0].file("host_ops")
    assert place.is_file()
    assert run.parts[0].store not in place.parents  # in the temporary folder
    assert run.table("host_ops").height == len(EVENTS)


def test_file_that_changes_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(["1" * 32, "2" * 32, "2" * 32, "2" * 32])
    monkeypatch.setattr(imports, "hash_content", lambda source: next(said))
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    assert run.parts[0].facts["content"] == "2" * 32


_FORKS = """
import os, sys
import sightline
from sightline.core.model import parts
from sightline.opening import recording
parts.ROWS_AT_ONCE, recording.HELD_ROWS = 700, (0, 10_000)
run = sightline.open(sys.argv[1])
child = os.fork()
if child == 0:
    os._exit(0 if run.parts[0].file("host_ops").is_file() else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_child_of_a_fork_does_not_wait_for_ever(tmp_path: Path) -> None:
    path = t.write(tmp_path, EVENTS)
    done = subprocess.run([sys.executable, "-c", _FORKS, str(path)], timeout=60, check=False)
    assert done.returncode == 0
