"""JAX and XLA profiles (`*.xplane.pb`): device planes, host threads, XLA's modules and operations.

What `jax.profiler.trace` and TensorFlow's profiler write. docs/formats/xplane.md says what becomes
what.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="xplane",
    label="JAX/XLA profile (XPlane)",
    # The first field of the file is a plane, whose first fields are its number and its name.
    strong=(
        rb"\A\x0a[\x00-\xff]{1,5}(?:\x08[\x00-\xff]{1,10})?\x12[\x01-\x7f]"
        rb"(?:/host:|/device:|Task Environment)",
    ),
    weak=(),
    looks_like="a protobuf whose first plane is named /host:… or /device:…",
    suffixes=(".xplane.pb", ".xplane.pb.gz"),
    supersedes=(".trace.json.gz",),
    version=9,
    source="https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all planes that are whole. Raises DamagedError where none holds an event."""
    # Every command asks all importers what they recognise: what reads is loaded for profiles only.
    from sightline.formats.jax.xplane.reading import read_space

    return read_space(source, options)
