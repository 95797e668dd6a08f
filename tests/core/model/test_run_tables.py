"""Of a table what is asked is read, each column once, and together they are the table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model import run as model_run
from sightline.core.model.run import Run
from sightline.errors import StoreError
from support import traces as t

EVENTS = [t.kernel(f"k{i % 3}", 10 * i, 5) for i in range(50)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(model_run, "FEW_ROWS", 0)
    return sightline.open(str(t.write(tmp_path, EVENTS)))


def test_columns_are_those_of_the_table(run: Run) -> None:
    whole = Run(run.parts).table("device_ops")
    some = run.table("device_ops", ["name", "device_op_id"])
    assert some.equals(whole.select("name", "device_op_id"))
    assert run.table("device_ops", ["end_ns", "name"]).equals(whole.select("end_ns", "name"))
    assert run.table("device_ops").equals(whole)
    assert run.table("device_ops").columns == whole.columns


def test_each_column_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    once = Run._read

    def note(self: Run, name: str, columns: list[str]) -> pl.DataFrame:
        read.extend(columns)
        return once(self, name, columns)

    monkeypatch.setattr(Run, "_read", note)
    for columns in (["name"], ["start_ns", "name"], ["end_ns", "kind"], None, ["name"]):
        run.table("device_ops", columns)
    assert read[:4] == ["name", "start_ns", "end_ns", "kind"]  # a span is read as one
    assert len(read) == len(set(read)) == len(run.table("device_ops").columns)


def test_few_rows_are_read_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_run, "FEW_ROWS", 1_000)
    assert run.table("device_ops", ["name"]).columns == ["name"]
    assert len(run._tables["device_ops"].columns) > 40


def test_a_large_table_is_the_same_read_column_by_column(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [name for name in run.present() if run.rows(name)]
    whole = [Run(run.parts).table(name) for name in tables]
    monkeypatch.setattr(model_run, "MANY_ROWS", 0)
    assert len(tables) > 2
    for name, frame in zip(tables, whole, strict=True):
        assert run.table(name).equals(frame)
        assert run.table(name).schema == frame.schema


def test_what_is_known_of_a_large_table_is_not_read_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_run, "MANY_ROWS", 0)
    known = run.table("device_ops", ["name", "launch_id"])
    whole = Run(run.parts).table("device_ops")
    monkeypatch.setattr(Run, "_read", lambda self, name, columns: whole.select(columns))
    some = run.columns("device_ops", ["kind", "name"])
    assert some.equals(whole.select("kind", "name"))
    assert run._tables["device_ops"].columns == known.columns
    monkeypatch.delattr(Run, "_read")
    assert run.columns("device_ops", ["launch_id", "name"]).equals(known["launch_id", "name"])


def test_of_a_large_table_nothing_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_run, "MANY_ROWS", 0)
    names = run.columns("device_ops", ["name"])
    assert not run._tables
    assert run.table("device_ops", ["name"]).equals(names)
    assert run.columns("device_ops", ["name"]).equals(names)
    assert run.columns("device_ops", ["name", "kind"]).columns == ["name", "kind"]
    assert run._tables["device_ops"].columns == ["name"]


def test_what_ends_before_it_starts_is_damage(run: Run) -> None:
    file = run.parts[0].file("device_ops")
    pl.read_parquet(file).with_columns(end_ns=pl.col("start_ns") - 1).write_parquet(file)
    assert run.table("device_ops", ["name"]).height == len(EVENTS)
    with pytest.raises(StoreError, match="ends before it starts"):
        run.table("device_ops", ["end_ns"])
