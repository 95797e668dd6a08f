"""Nsight Systems exports as a folder of tables: `nsys export --type parquetdir` and `arrowdir`.

One file per table, with the names and columns of the SQLite export (Nsight Systems User Guide,
"Exporting"). The reader of that form reads this one, too; only how it is known differs.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="nsys_tables",
    label="Nsight Systems export as a folder (parquetdir, arrowdir)",
    # The listing of a folder; META_DATA_EXPORT and StringIds are in every export.
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*(?:META_DATA_EXPORT|StringIds)\.(?:parquet|arrow) ",),
    weak=(),
    looks_like="a folder with StringIds.parquet or META_DATA_EXPORT.parquet (or .arrow) in it",
    suffixes=(".parquetdir", ".arrowdir"),
    version=13,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
    anchors=("META_DATA_EXPORT.*", "StringIds.*"),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where the folder holds none that can be read."""
    from sightline.formats.nvidia._nsys.reading import read_export

    return read_export(source, options)
