"""CTF traces: LTTng's of the kernel and of user space, THAPI's, barectf's, any other's.

The metadata is parsed here and compiled into a plan, which `native/ctf` runs over the streams.
docs/formats/ctf.md says what becomes what.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.system.ctf.folders import find_recordings

IMPORTER = Importer(
    name="ctf",
    label="CTF trace (LTTng, THAPI)",
    # The file `metadata` itself: packets, TSDL with its signature, or fragments.
    strong=(rb"\A(?:\x75\xd1\x1d\x57|\x57\x1d\xd1\x75|/\*\s*CTF\s|\x1e\s*\{)",),
    weak=(),
    looks_like="a folder, or folders in it, with a file 'metadata' of CTF 1.8 or CTF 2",
    suffixes=(),
    version=8,
    source="https://diamon.org/ctf/",
    find_folders=find_recordings,
    anchors=("metadata",),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all traces in a folder. Raises DamagedError where none of them can be read."""
    from sightline.formats.system.ctf.reading import read_recording  # yaml and the parser take time

    return read_recording(source, options)
