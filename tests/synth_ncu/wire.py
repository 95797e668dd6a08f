"""Writes protobuf messages: pairs of (field number, value)."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def message(*fields) -> bytes:
    """Fields as (number, int | float | str | bytes | None); None is left out."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, (bool, int)):
            out += varint(number << 3) + varint(int(value))
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data
