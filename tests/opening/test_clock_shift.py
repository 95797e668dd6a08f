"""A recording made on another host's clock: every time of every table moves, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from sightline.core import registry
from sightline.core.model.columns import Table
from sightline.core.model.declare import Imported, ImportOptions, Recording
from sightline.core.model.source import Source
from sightline.core.model.store import Part, read_facts
from sightline.opening import imports

SHIFT_NS = 1_000_000_007
TABLES: dict[str, Table] = {
    name: module.TABLE
    for name, module in registry.load_members("tables")
    if name not in ("recordings", "quality")
}


def one_row(table: Table, value: int) -> pl.DataFrame:
    """A row in which every integer is `value`, and every text 'x'."""
    fill: dict[Any, Any] = {pl.Int64: value, pl.Float64: 0.5, pl.Boolean: True, pl.String: "x"}
    return pl.DataFrame(
        {
            c.name: pl.Series([fill.get(c.dtype)], dtype=c.dtype)
            for c in table.columns
            if c.name not in ("rank", "recording_id")
        }
    )


def imported_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift_ns: int, *, constant: bool
) -> dict[str, pl.DataFrame]:
    """All tables of a recording that holds one row of each, as the store gives them back."""

    def read(source: Source, options: ImportOptions) -> Imported:
        frames = {name: one_row(table, 5) for name, table in TABLES.items()}
        recording = Recording(tool="t", start_ns=5, end_ns=6, clock_offset_ns=7)
        if not constant:
            return Imported(frames, recording)
        values = {
            name: {c.name: 5 for c in table.columns if c.name in frames[name] and c.moment}
            for name, table in TABLES.items()
        }
        lazy = {name: frame.drop(values[name]).lazy() for name, frame in frames.items()}
        return Imported({}, recording, large=lazy, constants=values)

    importer = registry.load("importers", "kineto").IMPORTER
    monkeypatch.setattr(imports, "recognise", lambda _: importer)
    monkeypatch.setattr(registry, "load", _load_with(registry.load, SimpleNamespace(read=read)))
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / f"{shift_ns}-{constant}"))
    path = tmp_path / "recording.json"
    path.write_text("{}")
    options = ImportOptions(clock_shift_ns=shift_ns)
    store = imports.import_one(Source(path, str(path)), options)
    (facts,) = read_facts(store)
    part = Part(store, 0, facts["rank"], 0, 0, facts)
    found = {name: part.scan(table) for name, table in TABLES.items()}
    return {name: frame.collect() for name, frame in found.items() if frame is not None}


def _load_with(load: Any, fake: Any) -> Any:
    return lambda kind, name: fake if kind == "importers" else load(kind, name)


@pytest.mark.parametrize("constant", [False, True], ids=["in rows", "one value throughout"])
def test_every_time_of_every_table_is_shifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constant: bool
) -> None:
    moved = imported_with(tmp_path, monkeypatch, SHIFT_NS, constant=constant)
    monkeypatch.undo()
    assert set(moved) == set(TABLES)
    for name, table in TABLES.items():
        for column in table.columns:
            if column.dtype != pl.Int64 or column.name in ("rank", "recording_id"):
                continue
            expected = 5 + SHIFT_NS if column.moment else 5
            assert moved[name].get_column(column.name).to_list() == [expected], (
                f"{name}.{column.name}"
            )


def test_every_column_that_is_called_a_time_is_declared_as_one() -> None:
    """A column in ns is a length or a moment; its declaration says which, and none says neither."""
    lengths = {"weight_ns", "clock_offset_ns", "clock_uncertainty_ns"}
    lengths |= {"ttft_ns", "itl_ns", "latency_ns", "queue_ns"}  # as the field calls them
    lengths |= {"step_ns", "limit_ns", "cpu_time_ns"}  # of a cluster's jobs
    for name, module in registry.load_members("tables"):
        for column in module.TABLE.columns:
            if column.unit == "ns":
                is_length = column.name in lengths or column.name.endswith("duration_ns")
                assert column.moment != is_length, f"{name}.{column.name}"
