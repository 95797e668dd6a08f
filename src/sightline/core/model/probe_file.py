"""The probe file: the calls of GPU libraries that `sightline probe` saw in one process.

    header   32 bytes: magic, version, bytes of a record, monotonic time of the start
    blocks   each 16 bytes of kind and length, and then its content:
               CALLS    records, one for each call that returned, in about the order of their ends
               FACTS    a JSON object; the keys of later ones replace those of earlier ones

Little-endian. The file is only ever appended to, so of a probe that was killed all is whole but
what it was just writing, which the reader cuts off. Times are ns of the monotonic clock; the fact
`clock` pairs it with the wall clock.

The words of a record depend on the kind of its function (the fact `functions` says which it is):

    launch      function or handle, grid x | y << 32, grid z | dynamic shared bytes << 32,
                block x | y << 16 | z << 32, stream
    graph       executable graph, 0, 0, 0, stream
    copy        destination, source, bytes, direction, stream
    fill        destination, value, bytes, 0, stream
    allocate    address, bytes, flags, pool, stream
    free        address, 0, 0, 0, stream
    wait        what is waited for: stream or event
    collective  elements, type, operation or root or peer, communicator, stream
    other       its first arguments
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.model.block_file import HEADER, BlockWriter

MAGIC = b"SIGHTLINE-PROBE\n"
VERSION = 1
SUFFIX = ".probe"
CALLS, FACTS = 1, 2
# Facts are tables of functions, kernels and stacks: a thousand times what a large program has.
MAX_FACTS_BYTES = 256 << 20

RECORD = np.dtype(
    [
        ("start", "<u8"), ("end", "<u8"), ("pid", "<u4"), ("tid", "<u4"),
        ("function", "<u2"), ("flags", "<u2"), ("stack", "<i4"), ("result", "<i8"),
        ("caller", "<u8"),
        ("words", "<u8", (5,)),
    ]
)  # fmt: skip
NESTED = 1  # bit of `flags`: a call of the same kind was open around it

# Kinds of functions, by their number in native/probe/calls.bpf.c.
KINDS = (
    "other", "launch", "graph", "copy", "fill", "allocate", "free", "wait", "collective", "name",
)  # fmt: skip


class ProbeWriter(BlockWriter):
    """Appends to a probe file. Raises OSError where it cannot."""

    def __init__(self, path: Path, monotonic_ns: int) -> None:
        super().__init__(path, HEADER.pack(MAGIC, VERSION, RECORD.itemsize, monotonic_ns))

    def write_calls(self, records: np.ndarray[Any, Any]) -> None:
        """Append records of the type RECORD."""
        if len(records):
            self.write_block(CALLS, np.ascontiguousarray(records).tobytes())

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Append what is known now."""
        self.write_block(FACTS, json.dumps(facts, separators=(",", ":")).encode())
