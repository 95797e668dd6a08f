"""Nsight Systems: the export of a report as SQLite or as tables, of every schema from 2020 on.

Format: "SQLite Schema Reference" in the exporter documentation of Nsight Systems. Times are ns
since the session began; TARGET_INFO_SESSION_START_TIME says when that was. docs/formats/nsys.md
says what lands where.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="nsys",
    label="Nsight Systems SQLite export",
    strong=(
        # nvprof has tables of the same names, and its texts in one of another name.
        rb"^SQLite format 3\x00(?!.*CREATE TABLE StringTable\(\s*_id_ ).*CREATE TABLE "
        rb"(?:TARGET_INFO_SESSION_START_TIME|"
        rb"CUPTI_ACTIVITY_KIND_|META_DATA_EXPORT|EXPORT_META_DATA|ENUM_NSYS)",
    ),
    weak=(rb"^SQLite format 3\x00",),
    looks_like="SQLite with tables such as StringIds and CUPTI_ACTIVITY_KIND_KERNEL",
    suffixes=(".sqlite",),
    supersedes=(".nsys-rep", ".qdrep", ".qdstrm"),
    version=21,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read an export, a SQLite file or a folder of tables, as far as it is intact.

    Raises DamagedError where it cannot be opened, UnknownFormatError where it is another's.
    """
    # Every command asks all importers what they recognise: what reads is loaded for exports only.
    from sightline.formats.nvidia._nsys.reading import read_export

    return read_export(source, options)
