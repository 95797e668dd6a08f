"""Requests of Prometheus' remote write, made by hand from its specification: no class of ours."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

Written = tuple[Mapping[str, str], Iterable[tuple[int, float]]]


def write_request(*series: Written) -> bytes:
    """A WriteRequest 1.0, not packed: each series' labels and its samples (ms, value)."""
    return b"".join(_field(1, _write_series(*one)) for one in series)


def _write_series(labels: Mapping[str, str], samples: Iterable[tuple[int, float]]) -> bytes:
    texts = [_field(1, k.encode()) + _field(2, v.encode()) for k, v in sorted(labels.items())]
    points = [b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(at) for at, value in samples]
    return b"".join([_field(1, t) for t in texts] + [_field(2, p) for p in points])


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    made = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
