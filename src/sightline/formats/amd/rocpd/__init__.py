"""AMD rocpd databases: what rocprofv3 writes unless told otherwise since ROCm 7, and rocprof-sys.

Format: ROCm/rocm-systems, projects/rocprofiler-sdk, share/rocprofiler-sdk-rocpd/*.sql, versions 3
and 4 of the schema. Each process that was recorded has tables of its own, whose names end in its
GUID; the plain names are views over all of them. Version 4 keeps times in a table of their own
(`start_id` and `end_id` name its rows), and thread, agent, queue and stream with the track.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="rocpd",
    label="AMD rocpd database (rocprofv3, rocprof-sys)",
    strong=(rb"^SQLite format 3\x00.*CREATE (?:TABLE|VIEW)[^(]{0,80}rocpd_",),
    weak=(),
    looks_like="SQLite with tables such as rocpd_kernel_dispatch_…",
    suffixes=(".db", ".rocpd"),
    version=6,
    source="https://rocm.docs.amd.com/projects/rocprofiler-sdk/en/latest/how-to/"
    "using-rocpd-output-format.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all processes' records. Raises DamagedError, UnknownFormatError for another's file."""
    # Every command asks all importers what they recognise: what reads is loaded for these only.
    from sightline.formats.amd.rocpd.reading import read_database

    return read_database(source, options)
