"""sightline's own GPU recordings through CUPTI: what its injection library writes.

A file is readable at any moment, and says itself which tables and columns it holds
(docs/formats/cupti.md): of a program that was killed, all but what it was just writing.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="cupti",
    label="sightline's GPU recording (CUPTI)",
    strong=(rb"^SIGHTLINE-CUPTI\n",),
    weak=(),
    looks_like="a file that starts with SIGHTLINE-CUPTI",
    suffixes=(".cupti",),
    version=6,
    source="docs/formats/cupti.md",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all whole chunks. Raises DamagedError where not even the header is whole."""
    from sightline.formats.nvidia.cupti.reading import read_recording  # loads NumPy

    return read_recording(source, options)
