"""Whether an Arrow file's batches are where they say, before Polars reads it.

Polars allocates what a batch says that its buffers hold, and where that cannot be had the process
ends: a few damaged bytes would be a crash. So the lengths are looked at first. The layout is
that of https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format, whose metadata are
FlatBuffers (https://flatbuffers.dev/internals).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"ARROW1"
_CONTINUES = -1  # stands before the length of a message's metadata since Arrow 0.15
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2  # of the union MessageHeader
_BLOCK, _BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")
# Unpacked, a buffer holds at most this or 16 bytes a row (the widest value, a view of a text).
_LONGEST_TEXTS, _WIDEST, _PADDING = 1 << 30, 16, 64


def check_arrow_file(path: Path) -> None:
    """Raise OSError where a buffer of a batch lies outside of it, or claims more than it can hold.

    What is not an Arrow file at all is left to the reader, which says so.
    """
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                for start, metadata, body in _find_blocks(data):
                    _check_message(data, start, metadata, body)
            except (struct.error, IndexError):
                raise OSError("its list of batches is damaged") from None


def _find_blocks(data: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """Where each batch is: its start, and the lengths of its metadata and its body, in bytes."""
    tail = len(_MAGIC) + 4
    if data[-len(_MAGIC) :] != _MAGIC:
        raise OSError("its end is missing")
    (length,) = struct.unpack_from("<i", data, len(data) - tail)
    footer = data[max(0, len(data) - tail - length) : len(data) - tail]
    root = _follow(footer, 0)
    for field in (2, 3):  # Footer.dictionaries, Footer.recordBatches
        for place in _find_structs(footer, root, field, _BLOCK.size):
            start, metadata, body = _BLOCK.unpack_from(footer, place)
            if min(start, metadata, body) < 0 or start + metadata + body > len(data):
                raise OSError("a batch lies outside of the file")
            yield start, metadata, body


def _check_message(data: mmap.mmap, start: int, metadata: int, body: int) -> None:
    message = data[start : start + metadata]
    (first,) = struct.unpack_from("<i", message, 0)
    message = message[8 if first == _CONTINUES else 4 :]
    root = _follow(message, 0)
    kind, header = _find_field(message, root, 1), _find_field(message, root, 2)
    if kind is None or header is None:
        return
    batch = _follow(message, header)
    if message[kind] == _DICTIONARY_BATCH:
        inner = _find_field(message, batch, 1)  # DictionaryBatch.data
        if inner is None:
            return
        batch = _follow(message, inner)
    elif message[kind] != _RECORD_BATCH:
        return
    rows_at = _find_field(message, batch, 0)
    rows = 0 if rows_at is None else struct.unpack_from("<q", message, rows_at)[0]
    packed = _find_field(message, batch, 3) is not None  # RecordBatch.compression
    for place in _find_structs(message, batch, 2, _BUFFER.size):
        offset, length = _BUFFER.unpack_from(message, place)
        if offset < 0 or length < 0 or offset + length > body:
            raise OSError("a column lies outside of its batch")
        if packed and length >= 8:
            (unpacked,) = struct.unpack_from("<q", data, start + metadata + offset)
            if unpacked > max(_LONGEST_TEXTS, _WIDEST * rows + _PADDING):
                raise OSError("a column claims more bytes than its rows can hold")


def _follow(buffer: bytes, place: int) -> int:
    """Where an offset leads."""
    return int(place + struct.unpack_from("<I", buffer, place)[0])


def _find_field(buffer: bytes, table: int, field: int) -> int | None:
    """Where a table's field is, by its number; None where it has the default."""
    places = table - struct.unpack_from("<i", buffer, table)[0]
    if places < 0:
        raise IndexError
    (size,) = struct.unpack_from("<H", buffer, places)
    entry = 4 + 2 * field
    offset = struct.unpack_from("<H", buffer, places + entry)[0] if entry + 2 <= size else 0
    return table + offset if offset else None


def _find_structs(buffer: bytes, table: int, field: int, size: int) -> Iterator[int]:
    """Where each struct of a vector of them is."""
    place = _find_field(buffer, table, field)
    if place is None:
        return
    vector = _follow(buffer, place)
    (count,) = struct.unpack_from("<I", buffer, vector)
    if vector + 4 + count * size > len(buffer):
        raise IndexError
    yield from range(vector + 4, vector + 4 + count * size, size)
