"""A second reader, written apart from sightline's: no bounds, no schema, only what is asked."""

from __future__ import annotations

import struct
from pathlib import Path


def _fields(b):
    i = 0

    def number():
        nonlocal i
        r = s = 0
        while True:
            c = b[i]
            i += 1
            r |= (c & 127) << s
            if c < 128:
                return r
            s += 7

    while i < len(b):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        elif tag & 7 == 2:
            n = number()
            yield tag >> 3, b[i : i + n]
            i += n
        else:
            n = {1: 8, 5: 4}[tag & 7]
            yield tag >> 3, struct.unpack("<d" if n == 8 else "<f", b[i : i + n])[0]
            i += n


def _all(b, wanted):
    return [v for n, v in _fields(b) if n == wanted]


def _value(b):
    for n, v in _fields(b):
        return v.decode() if n == 1 else v
    return None


def naive_metrics(path: Path):
    """(kernel, metric, instance, value) of every metric of every kernel of a report."""
    data = path.read_bytes()
    at = 8 + struct.unpack_from("<I", data, 4)[0]
    strings, results = [], []
    while at < len(data):
        n = struct.unpack_from("<I", data, at)[0]
        header = data[at + 4 : at + 4 + n]
        at += 4 + n
        for table in _all(header, 4):
            strings += [s.decode() for s in _all(table, 1)]
        sources, kernels = (next(iter(_all(header, f)), 0) for f in (1, 2))
        end = at + next(iter(_all(header, 5)), 0)
        messages = []
        while at < end:
            n = struct.unpack_from("<I", data, at)[0]
            messages.append(data[at + 4 : at + 4 + n])
            at += 4 + n
        assert at == end
        assert len(messages) == sources + kernels
        results += messages[sources:]
    assert at == len(data)
    for kernel, result in enumerate(results):
        for metric in _all(result, 13):
            name = strings[_all(metric, 1)[0]]
            items = _all(metric, 3)
            total = [_value(v) for v in _all(metric, 2)]
            if total or not items:
                yield kernel, name, None, total[0] if total else None
            for item in items:
                yield kernel, name, _value(_all(item, 1)[0]), _value(_all(item, 2)[0])
