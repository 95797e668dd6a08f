"""Nsight Compute reports (.ncu-rep), read without any vendor software.

Layout and messages: docs/formats/ncu.md. Reading is linear in the size of the file. What is cut
off or damaged is left out and counted; the rest is used.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="ncu_rep",
    label="Nsight Compute report",
    strong=(rb"^NVR\x00",),
    weak=(),
    looks_like="the bytes NVR and a zero at the start",
    suffixes=(".ncu-rep", ".ncu-rep.gz"),
    version=11,
    source="docs/formats/ncu.md",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a report as far as it is intact. Raises DamagedError where it holds nothing."""
    # Every command asks all importers what they recognise: what reads is loaded for reports only.
    from sightline.formats.nvidia.ncu_rep.reading import read_report

    return read_report(source, options)
