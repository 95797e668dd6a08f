"""Metric values of a result, with their instances."""

from __future__ import annotations

import struct
from typing import Any

from sightline.importers._ncu import MetricRows, Value
from sightline.importers.ncu_rep.wire import WireError, fields, varint

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_INTEGER_FIELDS = (0x20, 0x28)  # Uint32Value and Uint64Value, as varints
_U64 = 0xFFFF_FFFF_FFFF_FFFF


def read_metric(
    data: bytes, pos: int, end: int
) -> tuple[int | None, Value, list[tuple[Value, Value]]]:
    """A ProfileMetricResult: index of its name, its value, and (instance, value) pairs."""
    name: int | None = None
    value: Value = None
    instances: list[tuple[Value, Value]] = []
    for number, wire, raw in fields(data, pos, end):
        if number == 1 and wire == 0:
            name = raw
        elif number == 2 and wire == 2:
            value = _value(data, *raw)
        elif number == 3 and wire == 2:
            instances.append(_two_integers(data, *raw) or _element(data, *raw))
    return name, value, instances


def _two_integers(data: bytes, pos: int, end: int) -> tuple[int, int] | None:
    """The usual element, an integer for an integer, without the general way; None for others.

    Key: 0A length 20|28 varint. Value: 12 length 20|28 varint. Nine in ten bytes of a report
    with samples are these.
    """
    middle = pos + 2 + data[pos + 1] if end - pos >= 8 else end
    if (
        middle + 4 > end
        or data[pos] != 0x0A
        or data[middle] != 0x12
        or middle + 2 + data[middle + 1] != end
        or data[pos + 2] not in _INTEGER_FIELDS
        or data[middle + 2] not in _INTEGER_FIELDS
        or data[middle - 1] >= 0x80
        or data[end - 1] >= 0x80
        or middle - pos > 13  # longer than ten bytes: let the general way refuse it
        or end - middle > 13
    ):
        return None
    key = value = shift = 0
    for byte in data[pos + 3 : middle]:
        key |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 and shift != 7 * (middle - pos - 3):
            return None
    shift = 0
    for byte in data[middle + 3 : end]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 and shift != 7 * (end - middle - 3):
            return None
    return key & _U64, value & _U64


def _element(data: bytes, pos: int, end: int) -> tuple[Value, Value]:
    """A ProfileMetricListElement: (correlation id, value)."""
    key: Value = None
    value: Value = None
    for number, wire, raw in fields(data, pos, end):
        if wire == 2:
            if number == 1:
                key = _value(data, *raw)
            elif number == 2:
                value = _value(data, *raw)
    return key, value


def _value(data: bytes, pos: int, end: int) -> Value:
    """A ProfileMetricValue. Most are one integer field: those take the short way."""
    if end - pos >= 2 and data[pos] in _INTEGER_FIELDS:
        number, after = varint(data, pos + 1, end)
        if after == end:
            return number
    found: Value = None
    for number, wire, raw in fields(data, pos, end):
        if number in (4, 5) and wire == 0:
            found = raw
        elif number == 3 and wire == 1:
            found = _DOUBLE.unpack_from(data, raw[0])[0]
        elif number == 2 and wire == 5:
            found = _FLOAT.unpack_from(data, raw[0])[0]
        elif number == 1 and wire == 2:
            found = data[raw[0] : raw[1]].decode("utf-8", "replace")
    return found


def add_metrics(
    rows: MetricRows, kernel_id: int, data: bytes, places: list[Any], strings: list[str]
) -> tuple[dict[str, Value], int]:
    """All metrics of a result into `rows`; its totals by name, and how many were damaged."""
    totals: dict[str, Value] = {}
    damaged = 0
    for start, stop in places:
        try:
            index, value, instances = read_metric(data, start, stop)
        except WireError:
            damaged += 1
            continue
        if index is None or index >= len(strings):
            damaged += 1
            continue
        name = strings[index]
        totals[name] = value
        if value is not None or not instances:
            rows.add(kernel_id, name, None, value)
        rows.add_instances(kernel_id, name, instances)
    return totals, damaged
