"""The pprof format: gzipped protobuf, fields after google/pprof proto/profile.proto.

Only the few message fields that a profile of stacks needs, so the wire format is written here
(https://protobuf.dev/programming-guides/encoding): varints and length-delimited fields.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from sightline.flames.stacks import UNITS, Stacks

# Field numbers of message Profile.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6


def write(stacks: Stacks) -> bytes:
    """All weights as sample types; the grade of the match is a label of each sample."""
    strings = {"": 0}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    weights = stacks.weights
    parts = [
        _field(_SAMPLE_TYPE, _number(1, text(w)) + _number(2, text(UNITS.get(w, "count"))))
        for w in weights
    ]
    match_key = text("match")
    for frames, match, *values in stacks.rows.select("frames", "match", *weights).rows():
        # Leaf first; location ids start at 1, since 0 means none.
        locations = _packed(1, (f + 1 for f in reversed(frames)))
        label = _field(3, _number(1, match_key) + _number(2, text(match)))
        parts.append(_field(_SAMPLE, locations + _packed(2, values) + label))
    names = stacks.frames.sort("frame_id").select("frame_id", "layer", "name").rows()
    for number, layer, name in names:
        line = _field(4, _number(1, number + 1))
        parts.append(_field(_LOCATION, _number(1, number + 1) + line))
        function = _number(1, number + 1) + _number(2, text(name)) + _number(4, text(layer))
        parts.append(_field(_FUNCTION, function))
    parts += [_field(_STRING, s.encode()) for s in strings]
    return gzip.compress(b"".join(parts), mtime=0)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
