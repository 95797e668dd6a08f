"""Influx's line protocol, as collectors of clusters write it: metric,tag=text field=number time.

https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/. ClusterCockpit's collector
writes `load_one,hostname=n1,type=node value=1.5 1700000000`: one field called value, seconds.
What comes in was written by anybody: a line that is not a point is an error of its own, and no text
of it is used as anything but a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sightline.core.units import INT64_MAX

MOST_LINE = 65_536  # bytes: ours; a line of a collector has some 100
_ESCAPED = re.compile(rb"\\([,= \\])")
_SPLITS = {sign: re.compile(rb"(?<!\\)" + sign) for sign in (b",", b"=", b" ")}
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[iu]?")
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_WHOLE = re.compile(rb"-?\d{1,19}")
_EVENT = re.compile(
    rb'((?:[^ \\\n]|\\.)+) +event="((?:[^"\\]|\\.)*)"(?: +-?\d{1,19})?[ \r]*(?:\n|\Z)', re.DOTALL
)
_SIGN = re.compile(rb'\\(["\\])')
_TRUE, _FALSE = (b"t", b"T", b"true", b"True", b"TRUE"), (b"f", b"F", b"false", b"False", b"FALSE")
# What times are counted in, by the parameter `precision`; without one by how large they are.
PRECISIONS = {"s": 10**9, "ms": 10**6, "us": 10**3, "u": 10**3, "ns": 1}


class Line(NamedTuple):
    """A line in its three parts as they were written; `time` is empty where none was."""

    head: bytes
    fields: bytes
    time: bytes


def split_line(line: bytes) -> Line:
    """Metric with its tags, fields, time. Raises ValueError."""
    if len(line) > MOST_LINE:
        raise ValueError(f"a line is longer than {MOST_LINE} bytes")
    if b'"' in line:
        return _split_quoted(line)
    parts = line.split(b" ") if b"\\" not in line else _SPLITS[b" "].split(line)
    parts = [part for part in parts if part]
    if not 2 <= len(parts) <= 3:
        raise ValueError("a line must be a metric, its fields and a time")
    return Line(parts[0], parts[1], parts[2] if len(parts) == 3 else b"")


def _split_quoted(line: bytes) -> Line:
    """A line with a text among its fields, which may hold blanks."""
    head, *more = _SPLITS[b" "].split(line, 1)
    rest = more[0] if more else b""
    inside, end = False, len(rest)
    for place, sign in enumerate(rest):
        if sign == 34 and rest[place - 1 : place] != b"\\":
            inside = not inside
        elif sign == 32 and not inside:
            end = place
            break
    if not more or inside or not head:
        raise ValueError("a quoted string in a line has no end")
    return Line(head, rest[:end], rest[end:].strip())


def read_head(head: bytes) -> tuple[str, dict[str, str]]:
    """The metric and its tags. Raises ValueError."""
    name, *pairs = _SPLITS[b","].split(head)
    tags = {}
    for pair in pairs:
        key, *value = _SPLITS[b"="].split(pair)
        if len(value) != 1 or not key or not value[0]:
            raise ValueError("a tag must be a name, '=' and a string")
        tags[_decode(key)] = _decode(value[0])
    if not name:
        raise ValueError("the metric has no name")
    return _decode(name), tags


def read_fields(fields: bytes) -> Iterator[tuple[str, float]]:
    """The fields that are numbers, with their names; texts are none. Raises ValueError."""
    if fields.startswith(b"value=") and _NUMBER.fullmatch(fields, 6):
        yield "value", _read_number(fields[6:])
        return
    place = 0  # not the rest of the line: 16,000 fields would be copied 16,000 times
    while place < len(fields):
        sign = fields.find(b"=", place)
        if sign <= place:
            raise ValueError("a field must be a name, '=' and a value")
        if fields.startswith(b'"', sign + 1):
            found = _TEXT.match(fields, sign + 1)
            if found is None:
                raise ValueError("a quoted string in a line has no end")
            place = found.end() + fields.startswith(b",", found.end())
            continue
        comma = fields.find(b",", sign + 1)
        end = len(fields) if comma < 0 else comma
        yield _decode(fields[place:sign]), _read_number(fields[sign + 1 : end])
        place = end + 1


def read_events(data: bytes) -> Iterator[tuple[str, dict[str, str], str]]:
    """What cc-backend calls events: name, tags and the text of `event` (internal/api/nats.go).

    job,function=start_job event="{\\"jobId\\":7}" 1700000000 is one. Raises ValueError at the first
    that is none.
    """
    place = 0
    while place < len(data):
        if data[place : place + 1] in b" \r\n":
            place += 1
            continue
        found = _EVENT.match(data, place)
        if found is None:
            raise ValueError("an event is a name with tags, and a text  event=")
        name, tags = read_head(found[1])
        yield name, tags, _SIGN.sub(rb"\1", found[2]).decode()
        place = found.end()


def _read_number(text: bytes) -> float:
    if text in _TRUE or text in _FALSE:
        return 1.0 if text in _TRUE else 0.0
    if not _NUMBER.fullmatch(text):
        raise ValueError("a value is not a number")
    number = float(text.rstrip(b"iu"))
    if not math.isfinite(number):
        raise ValueError("a value is not a finite number")
    return number


def read_time_ns(text: bytes, scale: int | None, now_ns: int) -> int:
    """A time in ns since 1970; `scale` ns are its unit, None: by its size. Raises ValueError."""
    if not text:
        return now_ns
    if not _WHOLE.fullmatch(text):
        raise ValueError("a time is not a whole number")
    number = int(text)
    unit = scale or find_unit_ns(number)
    if not -INT64_MAX <= number * unit <= INT64_MAX:
        raise ValueError("a time is too far away")
    return number * unit


def find_unit_ns(number: int) -> int:
    """What a time of today is counted in, by its size: seconds have 10 digits until 2286."""
    size = abs(number)
    return 10**9 if size < 10**11 else 10**6 if size < 10**14 else 10**3 if size < 10**17 else 1


def write_line(name: str, tags: Mapping[str, str], value: float, time_s: int) -> str:
    """A point as ClusterCockpit's collector writes one, without the end of the line."""
    written = "".join(f",{_escape(key)}={_escape(text)}" for key, text in tags.items() if text)
    return f"{_escape(name)}{written} value={value!r} {time_s}"


def _escape(text: str) -> str:
    clean = "".join(c for c in text if c.isprintable())
    return re.sub(r"([,= \\])", r"\\\1", clean)


def _decode(text: bytes) -> str:
    try:
        return (_ESCAPED.sub(rb"\1", text) if b"\\" in text else text).decode()
    except UnicodeDecodeError as error:
        raise ValueError("a name is not UTF-8") from error
