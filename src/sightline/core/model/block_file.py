"""Files of blocks: a header, and then blocks that are only ever appended, each by one call.

A block is 16 bytes of kind and length, little-endian, and then its content. Whoever is killed while
writing leaves all blocks whole but the last one, which the reader cuts off.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Whose it is, version, bytes of a record, ns of the monotonic clock.
HEADER = struct.Struct("<16sIIq")
BLOCK = struct.Struct("<IIQ")  # kind, 0, bytes of the content


class BlockWriter:
    """Appends to a file of blocks. Raises OSError where it cannot."""

    def __init__(self, path: Path, header: bytes) -> None:
        self._file = path.open("xb", buffering=0)
        self._append(header)

    def write_block(self, kind: int, content: bytes) -> None:
        """Append one block."""
        self._append(BLOCK.pack(kind, 0, len(content)) + content)

    def close(self) -> None:
        """Close the file; it is whole at any time."""
        self._file.close()

    def _append(self, content: bytes) -> None:
        view = memoryview(content)
        while view:  # a full disk can take a part, and says so only at the next attempt
            view = view[os.write(self._file.fileno(), view) :]


@dataclass(frozen=True)
class Block:
    """A block that is there, at least in part."""

    kind: int
    content: bytes
    missing: int  # bytes that the file ends before


def read_blocks(stream: BinaryIO) -> Iterator[Block]:
    """The blocks behind the header, one by one; the last one may be cut short."""
    while head := stream.read(BLOCK.size):
        if len(head) < BLOCK.size:
            yield Block(0, b"", BLOCK.size - len(head))
            return
        kind, _, size = BLOCK.unpack(head)
        pieces, left = [], size
        while left and (piece := stream.read(min(left, 1 << 24))):  # what it says may be damage
            pieces.append(piece)
            left -= len(piece)
        yield Block(kind, b"".join(pieces), left)
        if left:
            return
