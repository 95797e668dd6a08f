"""OTF2 archives of Score-P, APEX, TAU and others: ranges of CPU threads, GPU streams, metrics.

Format: Open Trace Format 2, score-p.org: a folder with `traces.otf2`, `traces.def` and a folder of
events, or with all three of another name. Read by the format's own library (PyPI otf2, the extra
`hpc`), in a process of its own: it is written in C for files that are whole.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="otf2",
    label="OTF2 archive (Score-P, APEX, TAU)",
    # NAME.def and NAME.otf2 beside each other.
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*?([^\n]+)\.def \d[^\n]*\n(?:[^\n]*\n)*?\1\.otf2 ",),
    weak=(),
    looks_like="a folder with traces.otf2 and traces.def, or both of another name",
    suffixes=(".otf2",),
    version=6,
    source="https://perftools.pages.jsc.fz-juelich.de/cicd/otf2/",
    anchors=("*.otf2", "*.def"),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all locations. Raises DamagedError, InputError where the library is not installed."""
    from sightline.formats.hpc.otf2.reading import read_archive

    return read_archive(source, options)
