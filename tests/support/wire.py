"""The wire format of protocol buffers, read without Google's library or ours: a second opinion."""

from __future__ import annotations

from collections.abc import Iterator


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def read_fields(data: bytes, wanted: int) -> Iterator[bytes]:
    """The bytes of each value of one length-delimited field."""
    for number, value in _walk(data):
        if number == wanted and isinstance(value, bytes):
            yield value


def read_one(data: bytes, wanted: int) -> bytes:
    """One field's value: bytes, or a number's digits; empty where it is not there."""
    for number, value in _walk(data):
        if number == wanted:
            return value if isinstance(value, bytes) else str(value).encode()
    return b""


def _walk(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif kind == 2:
            size, at = _varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            width = 8 if kind == 1 else 4
            yield key >> 3, int.from_bytes(data[at : at + width], "little")
            at += width


def field(number: int, value: int | bytes) -> bytes:
    """A field as it is written: a number as a varint, bytes behind their length."""
    if isinstance(value, int):
        return _write_varint(number << 3) + _write_varint(value)
    return _write_varint(number << 3 | 2) + _write_varint(len(value)) + value


def _write_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
