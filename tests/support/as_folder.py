"""An export of Nsight Systems as a folder of tables, and whether it gives the same run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

import sightline
from sightline.core import registry
from sightline.core.model.run import Run


def write_folder(export: Path, folder: Path, ending: str) -> Path:
    """Write the tables of an export, one file each, without sightline.

    Numbers have the smallest type that holds them, as in a typed export.
    """
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
            if frame.height:
                frame = frame.with_columns(c.shrink_dtype() for c in frame if c.dtype.is_integer())
            target = folder / f"{name}.{ending}"
            frame.write_parquet(target) if ending == "parquet" else frame.write_ipc(target)
    database.close()
    return folder


def assert_same_run(run: Run, folder: Path, *, keep_identity: bool = False) -> None:
    """A folder of an export's tables gives the same run as the export itself."""
    other = sightline.open(str(folder), keep_identity=keep_identity)
    for name in registry.list_names("tables"):
        one, two = run.table(name), other.table(name)
        if name == "recordings":
            apart = ["path", "format", "bytes", "content", "importer_version"]
            one, two = (t.drop(apart, strict=False) for t in (one, two))
        assert_frame_equal(one, two)
