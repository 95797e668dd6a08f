"""What `sightline probe` saw of one process: its calls of GPU libraries, from outside.

core/model/probe_file.py describes the format. Calls are known from their entry to their return,
with their arguments. When the GPU did what they asked for is not: no row of `device_ops` is made
up.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="sightline_probe",
    label="calls seen by sightline probe",
    strong=(rb"^SIGHTLINE-PROBE\n",),
    weak=(),
    looks_like="a file that starts with SIGHTLINE-PROBE",
    suffixes=(".probe",),
    version=4,
    source="src/sightline/core/model/probe_file.py",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all calls. Raises DamagedError where not even the header is whole."""
    # All commands ask what recognises a file; NumPy is for those only that read one of these.
    from sightline.formats.own.sightline_probe.tables import read_probe

    return read_probe(source)
