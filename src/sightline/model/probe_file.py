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
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MAGIC = b"SIGHTLINE-PROBE\n"
VERSION = 1
SUFFIX = ".probe"
HEADER = struct.Struct("<16sIIq")
BLOCK = struct.Struct("<IIQ")  # kind, 0, bytes of the content
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


class ProbeWriter:
    """Appends to a probe file. Raises OSError where it cannot."""

    def __init__(self, path: Path, monotonic_ns: int) -> None:
        self._file = path.open("xb", buffering=0)
        self._append(HEADER.pack(MAGIC, VERSION, RECORD.itemsize, monotonic_ns))

    def write_calls(self, records: np.ndarray[Any, Any]) -> None:
        """Append records of the type RECORD."""
        if len(records):
            content = np.ascontiguousarray(records).tobytes()
            self._append(BLOCK.pack(CALLS, 0, len(content)) + content)

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Append what is known now."""
        content = json.dumps(facts, separators=(",", ":")).encode()
        self._append(BLOCK.pack(FACTS, 0, len(content)) + content)

    def close(self) -> None:
        """Close the file; it is whole at any time."""
        self._file.close()

    def _append(self, content: bytes) -> None:
        view = memoryview(content)
        while view:  # a full disk can take a part, and says so only at the next attempt
            view = view[os.write(self._file.fileno(), view) :]


@dataclass(frozen=True)
class ProbeBlock:
    """A block that is there, at least in part."""

    kind: int
    content: bytes
    missing: int  # bytes that the file ends before


def read_blocks(stream: BinaryIO) -> Iterator[ProbeBlock]:
    """The blocks behind the header, one by one; the last one may be cut short."""
    while head := stream.read(BLOCK.size):
        if len(head) < BLOCK.size:
            yield ProbeBlock(0, b"", BLOCK.size - len(head))
            return
        kind, _, size = BLOCK.unpack(head)
        pieces, left = [], size
        while left and (piece := stream.read(min(left, 1 << 24))):  # what it says may be damage
            pieces.append(piece)
            left -= len(piece)
        yield ProbeBlock(kind, b"".join(pieces), left)
        if left:
            return
