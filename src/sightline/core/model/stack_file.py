"""The stack file: samples of the CPU stacks of a program's threads, as sightline takes them itself.

    header   32 bytes: magic, version, bytes of a record, monotonic time of the start
    blocks   model.block_file:
               SAMPLES  records, in order of time as far as one look at the rings goes
               NODES    the trie of stacks: (parent, frame) of each node, counted on from 0; parent
                        -1 is a root. A node comes before the first sample that ends in it
               FRAMES   JSON {"from": n, "rows": [[layer, function, file, module], ...]}: frames
                        from number n on; of code whose lines are known, the line is a fifth. What
                        was named later comes again, and then holds
               THREADS  JSON [[pid, tid, process name, thread name], ...]; later rows hold
               FACTS    a JSON object; the keys of later ones replace those of earlier ones

Little-endian. Names are looked up while the program runs, so that the file can be read anywhere.
Times are ns of the monotonic clock; the fact `clock` pairs it with the wall clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.model.block_file import HEADER, BlockWriter

MAGIC = b"SIGHTLINE-STACK\n"
VERSION = 1
SUFFIX = ".stacks"
SAMPLES, NODES, FRAMES, THREADS, FACTS = range(1, 6)
# A frame has some 100 bytes, and a program some 100,000 of them at most.
MAX_TEXT_BYTES = 256 << 20

RECORD = np.dtype(
    [("time", "<u8"), ("pid", "<u4"), ("tid", "<u4"), ("stack", "<i4"), ("cpu", "<u2"),
     ("flags", "<u2")]
)  # fmt: skip
# Bits of `flags`: the thread was in the kernel; the stack goes on behind the copy that was taken of
# it; or nothing says how it goes on.
IN_KERNEL, CUT, LOST_WAY = 1, 2, 4
NODE = np.dtype([("parent", "<i4"), ("frame", "<i4")])

# layer, function, file, module, line
Row = tuple[str, str | None, str | None, str | None, int | None]


class StackWriter(BlockWriter):
    """Appends to a stack file. Raises OSError where it cannot."""

    def __init__(self, path: Path, monotonic_ns: int) -> None:
        super().__init__(path, HEADER.pack(MAGIC, VERSION, RECORD.itemsize, monotonic_ns))

    def write_samples(self, records: np.ndarray[Any, Any]) -> None:
        """Append records of the type RECORD."""
        if len(records):
            self.write_block(SAMPLES, np.ascontiguousarray(records).tobytes())

    def write_nodes(self, nodes: Sequence[tuple[int, int]]) -> None:
        """Append nodes of the trie: (parent, frame)."""
        if nodes:
            self.write_block(NODES, np.array(nodes, NODE).tobytes())

    def write_frames(self, first: int, rows: Sequence[Row]) -> None:
        """Append frames, or name some anew, from a number on."""
        if rows:
            told = [row[:4] if row[4:] == (None,) else row for row in rows]
            self._write_text(FRAMES, {"from": first, "rows": told})

    def write_threads(self, rows: Sequence[tuple[int, int, str | None, str | None]]) -> None:
        """Append names of threads."""
        if rows:
            self._write_text(THREADS, rows)

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Append what is known now."""
        self._write_text(FACTS, facts)

    def _write_text(self, kind: int, told: Any) -> None:
        self.write_block(kind, json.dumps(told, separators=(",", ":")).encode())
