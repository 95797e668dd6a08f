"""Perfetto traces: track events, GPU render stages, counters, samples, scheduling.

One format of many producers: torch.profiler's CUPTI monitor, rocprofv3 and rocprof-sys, THAPI,
Chrome, Android, and our own export. docs/formats/perfetto.md says what becomes what.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.system.perfetto.reading import read_trace

# A file is one repeated field, `packet` (1): its key, a length of one to four bytes, and the first
# field of the first packet. These are the fields that packets of the known producers begin with.
_FIRST = (
    rb"[\x08\x12\x1a\x22\x32\x40\x50\x5a\x62\x68\x78]"  # 1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 15
    rb"|[\xc8\xd0\xd8]\x02|[\x88\x8a\x90\x92\x9a\xa2\xaa\xb2\xba\xc8\xd0\xda\xe2]\x03"
    rb"|[\x80-\xff][\x01-\x0f]"
)

IMPORTER = Importer(
    name="perfetto",
    label="Perfetto trace",
    strong=(),
    weak=(rb"\A\x0a(?:[\x02-\x7f]|[\x80-\xff]{1,3}[\x01-\x7f])(?:" + _FIRST + rb")",),
    looks_like="packets of protobuf; endings .pftrace and .perfetto-trace",
    suffixes=(".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz"),
    owns=(".pftrace", ".perfetto-trace"),
    version=5,
    source="https://perfetto.dev/docs/reference/trace-packet-proto",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all packets that are whole. Raises DamagedError where none of them says anything."""
    return read_trace(source, options)
