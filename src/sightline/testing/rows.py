"""A run of rows that a test writes down, without any file of a profiler's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.columns import conform_columns
from sightline.core.model.declare import Recording
from sightline.core.model.store import fill_store
from sightline.core.model.tables import load_table
from sightline.session import Session, open_session
from sightline.version import __version__

# What a row has where it does not say: one device, one thread, a kernel.
_USUAL: dict[str, dict[str, Any]] = {
    "device_ops": {"device_id": 0, "stream_id": 0, "kind": "kernel", "name": "k"},
    "host_ops": {"pid": 1, "tid": 1, "layer": "op", "depth": 0},
}


def open_rows(
    folder: Path, *, window: str | None = None, rank: int = 0, **tables: Sequence[Mapping[str, Any]]
) -> Session:
    """A session over these rows, as `open_rows(tmp_path, device_ops=[{"start_ns": 0, ...}])`.

    Tables and columns are those of `sightline tables`; times are ns. An id that is not given counts
    from 0, `device_ops` are kernels of device 0 unless they say otherwise, and all else that is not
    given is null. The store is written into a new folder below `folder`. Raises AssertionError
    for a column that is not declared, or a null where none is allowed, and RequestError for an
    unknown table.

        >>> made = open_rows(folder, device_ops=[{"start_ns": 0, "end_ns": 7}])
        >>> made.ask("breakdown").get_column("compute_ns").to_list()
        [7]
        >>> open_rows(folder, device_ops=[{"begin_ns": 0}])
        Traceback (most recent call last):
        AssertionError: device_ops has no column begin_ns:  sightline tables device_ops
    """
    made = {name: _make_table(name, rows) for name, rows in tables.items()}
    place = folder / f"rows-{len(list(folder.glob('rows-*')))}.sightline"
    place.mkdir(parents=True)
    facts = {**Recording("rows of a test").facts(), "format": "rows", "quality": []}
    facts |= {"own_rank": rank, "bytes": 0, "importer_version": __version__, "path": place.stem}
    facts.pop("rank", None)
    fill_store(place, [(rank, facts, dict(made))], sightline_version=__version__)
    return open_session([str(place)], window=window)


def _make_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    table = load_table(name)
    usual = _USUAL.get(name, {})
    key = next((c.name for c in table.columns if c.is_id), None)
    numbered = [
        {**usual, **({} if key is None else {key: number}), **row}
        for number, row in enumerate(rows)
    ]
    known = {c.name: c.dtype for c in table.columns}
    given = {column: known.get(column) for row in numbered for column in row}
    unknown = sorted(column for column, dtype in given.items() if dtype is None)
    assert not unknown, f"{name} has no column {', '.join(unknown)}:  sightline tables {name}"
    frame = pl.DataFrame(numbered, schema={c: known[c] for c in given}, orient="row")
    frame = conform_columns(frame, table.stored)
    lacking = [c.name for c in table.stored if c.required and frame.get_column(c.name).null_count()]
    assert not lacking, f"a row of {name} lacks {', '.join(lacking)}"
    return frame
