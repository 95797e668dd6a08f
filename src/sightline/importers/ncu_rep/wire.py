"""Reads the protobuf wire format, driven by declared field tables: one screen, no dependency.

Every read is bounded by the end of the message around it, so a hostile length cannot reach
outside it, and the work is linear in the bytes: a field costs at least one byte, a message at
least two, and depth is that of the declared tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_SCALARS = frozenset(("uint", "int", "bool"))


class WireError(ValueError):
    """The bytes are not a message."""


@dataclass(frozen=True)
class Field:
    """A declared field: a scalar kind (uint, int, bool, float, double, text, bytes) or a message.

    A `bytes` field is given as its (start, end) in the buffer, without a copy.
    """

    name: str
    kind: str
    repeated: bool


Schema = dict[str, dict[int, Field]]


def parse_schema(text: str) -> Schema:
    """Field tables from lines such as 'BlockHeader: 1 NumSources uint, 4 Strings []text'.

    An indented line continues the one before it.
    """
    schema: Schema = {}
    for line in text.strip().replace("\n    ", " ").splitlines():
        name, _, rest = line.partition(":")
        fields = {}
        for item in filter(None, (part.split() for part in rest.split(","))):
            number, field, kind = item
            fields[int(number)] = Field(field, kind.removeprefix("[]"), kind.startswith("[]"))
        schema[name.strip()] = fields
    return schema


def varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """An unsigned integer of at most 64 bits, and where it ends."""
    result = shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7
        if shift > 63:
            raise WireError("a number is longer than ten bytes")
    raise WireError("a number ends outside its message")


def fields(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message as (number, wire type, value); of bytes the (start, end)."""
    while pos < end:
        key, pos = varint(data, pos, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError("a field has number 0")
        value: Any
        if wire == _VARINT:
            value, pos = varint(data, pos, end)
        elif wire == _BYTES:
            length, pos = varint(data, pos, end)
            if length > end - pos:
                raise WireError("a field ends outside its message")
            value, pos = (pos, pos + length), pos + length
        elif wire in (_FIXED64, _FIXED32):
            width = 8 if wire == _FIXED64 else 4
            if width > end - pos:
                raise WireError("a field ends outside its message")
            value, pos = (pos, pos + width), pos + width
        else:
            raise WireError(f"a field has wire type {wire}")
        yield number, wire, value


def decode(schema: Schema, message: str, data: bytes, pos: int, end: int) -> dict[str, Any]:
    """A message as a dict of its declared fields; unknown fields and wrong types are skipped."""
    declared = schema[message]
    out: dict[str, Any] = {}
    for number, wire, raw in fields(data, pos, end):
        field = declared.get(number)
        if field is None:
            continue
        if field.repeated and wire == _BYTES and field.kind in _SCALARS:  # packed
            values = out.setdefault(field.name, [])
            at, stop = raw
            while at < stop:
                value, at = varint(data, at, stop)
                values.append(value)
            continue
        value = _value(schema, field.kind, wire, raw, data)
        if value is None:
            continue
        if field.repeated:
            out.setdefault(field.name, []).append(value)
        else:
            out[field.name] = value
    return out


def _value(schema: Schema, kind: str, wire: int, raw: Any, data: bytes) -> Any:
    """A field's value, or None where the wire type is not the declared one's."""
    if wire == _VARINT:
        if kind == "uint":
            return raw
        if kind == "int":
            return raw - (1 << 64) if raw >> 63 else raw
        return bool(raw) if kind == "bool" else None
    start, stop = raw
    if wire == _BYTES:
        if kind == "text":
            return data[start:stop].decode("utf-8", "replace")
        if kind == "bytes":
            return raw
        return decode(schema, kind, data, start, stop) if kind in schema else None
    if wire == _FIXED64 and kind == "double":
        return _DOUBLE.unpack_from(data, start)[0]
    if wire == _FIXED32 and kind == "float":
        return _FLOAT.unpack_from(data, start)[0]
    return None
