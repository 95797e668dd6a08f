"""nvprof and the NVIDIA Visual Profiler: their SQLite files (`nvprof -o`, `.nvprof`, `.nvvp`).

A table for each kind of CUPTI's activity records, as their structures were until CUDA 12; texts by
number in `StringTable`; times in ns since 1970. NVIDIA, CUPTI documentation, "Activity API";
Profiler User's Guide, "nvprof", Export/Import.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="nvprof",
    label="nvprof and NVIDIA Visual Profiler (SQLite)",
    strong=(rb"^SQLite format 3\x00.*CREATE TABLE StringTable\(\s*_id_ ",),
    weak=(),
    looks_like="SQLite with the tables StringTable and CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    suffixes=(".nvprof", ".nvvp"),
    version=5,
    source="https://docs.nvidia.com/cuda/archive/12.4.1/profiler-users-guide/#export-import",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables that are known. Raises DamagedError where SQLite cannot open it."""
    # Every command asks all importers what they recognise: what reads is loaded for these only.
    from sightline.formats.nvidia.nvprof.reading import read_file

    return read_file(source, options)
