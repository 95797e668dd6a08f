"""Nsight Systems exports as a folder of tables: `nsys export --type parquetdir` and `arrowdir`.

One file per table, with the names and columns of the SQLite export (Nsight Systems User Guide,
"Exporting"), so the tables are put into a SQLite file in the cache folder, which the reader of
that form then reads and which is removed again.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sightline import registry
from sightline.errors import DamagedError
from sightline.model.cache_folder import find_cache_folder
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.source import Source

IMPORTER = Importer(
    name="nsys_tables",
    label="Nsight Systems export as a folder (parquetdir, arrowdir)",
    # The listing of a folder; META_DATA_EXPORT and StringIds are in every export.
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*(?:META_DATA_EXPORT|StringIds)\.(?:parquet|arrow) ",),
    weak=(),
    looks_like="a folder with StringIds.parquet or META_DATA_EXPORT.parquet (or .arrow) in it",
    suffixes=(".parquetdir", ".arrowdir"),
    version=1,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
)

_ROWS = 100_000  # rows at a time, so that memory stays bounded


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where the folder holds none that can be read."""
    find_cache_folder().mkdir(parents=True, exist_ok=True)
    quality: list[Quality] = []
    with tempfile.TemporaryDirectory(prefix="nsys-", dir=find_cache_folder()) as scratch:
        target = Path(scratch) / "tables.sqlite"
        if not _convert(source, target, quality):
            raise DamagedError(f"cannot read {source.given}", why="none of its tables can be read")
        found: Imported = registry.load("importers", "nsys").read(
            Source(target, source.given), options
        )
    found.quality += quality
    return found


def _convert(source: Source, target: Path, quality: list[Quality]) -> int:
    """Write each table's rows to the SQLite file; how many tables there were."""
    count = 0
    database = sqlite3.connect(target)
    database.execute("PRAGMA journal_mode=OFF")
    database.execute("PRAGMA synchronous=OFF")
    try:
        for path in sorted(source.path.iterdir()):
            if path.suffix not in (".parquet", ".arrow"):
                continue
            try:
                for part in _parts(path):
                    _insert(database, path.stem, part)
                count += 1
            except (pl.exceptions.PolarsError, OSError) as error:
                said = str(error).splitlines()[0] if str(error) else type(error).__name__
                text = f"table {path.stem} cannot be read and was left out ({said})"
                quality.append(Quality("damaged_table", "error", text, 1))
        database.commit()
    finally:
        database.close()
    return count


def _parts(path: Path) -> Iterator[pl.DataFrame]:
    scan = pl.scan_parquet if path.suffix == ".parquet" else pl.scan_ipc
    rows = scan(path)
    at = 0
    while True:
        part = rows.slice(at, _ROWS).collect()
        if at and part.is_empty():
            return
        yield part
        at += part.height
        if part.height < _ROWS:
            return


def _insert(database: sqlite3.Connection, table: str, part: pl.DataFrame) -> None:
    # SQLite knows no lists, no categories and no unsigned 64-bit numbers.
    part = part.select(c for c in part.columns if not part.schema[c].is_nested()).with_columns(
        pl.col(pl.UInt64).reinterpret(signed=True), pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    if not part.columns:
        return
    name, *columns = ['"' + n.replace('"', '""') + '"' for n in (table, *part.columns)]
    database.execute(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})")
    marks = ", ".join("?" for _ in columns)
    database.executemany(f"INSERT INTO {name} VALUES ({marks})", part.iter_rows())  # noqa: S608
