"""Whether a damaged file is itself a whole one: nothing in it contradicts what its format says.

Rows that are gone of such a file cannot be told by any reader: it is what the tool would have
written of another run. The criterion is worked out from the undamaged file, without our readers:

removed   the lines are those of the undamaged file, in order, some of them missing; or (JSON) its
          keys and items, in order, some of them missing
another   text: each line is one of the undamaged file, or differs from one in digits of numbers
          only, and every number has as much form as before (an integer, a decimal); of dmon's
          tables a dash is a number, too
          JSON: each value stands where the undamaged file has one of its type
          protobuf: every byte belongs to a field of the number and wire type that the undamaged
          file has there
          perf.data: the header is the same, and every record has its kind and size
          SQLite: no error of `integrity_check`, no lost key, each value of its column's type
          stacks: each line is of the format's own grammar (GRAMMARS)
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from attack.structured import is_text

REMOVED, ANOTHER = "removed", "another"
_NUMBER = re.compile(rb"(?<![\w.])[0-9]+(\.[0-9]+)?(?![\w.])")
# What the formats of stacks say of a line, where names are free.
GRAMMARS: dict[str, re.Pattern[bytes]] = {
    # FlameGraph: "one line per stack, frames separated by ;, then a blank and a count".
    "collapsed": re.compile(rb"(?:[^;\n ]+;)*[^;\n ]+ [0-9]+"),
    # iaprof, stack.c: string ID TEXT, any names, then numbers separated by tabs.
    "iaprof": re.compile(rb"string\t[0-9]+\t[ -~]+|[a-z]+(?:\t[\w.-]+)+"),
}
# Tables in which a dash stands for any number that there is not (nvidia-smi dmon, pmon).
_DASHES, _DASH = ("smi_dmon",), re.compile(rb"(?<=\s)-(?=\s|$)")
_SAMPLE = 9  # perf_event.h, PERF_RECORD_SAMPLE
_Path = tuple[Any, ...]


def judge(kind: str, whole: bytes, made: bytes) -> str | None:
    """`removed` or `another` where the damaged file is whole in itself; None where it is not."""
    with suppress(OSError, EOFError, zlib.error):
        if whole[:2] == b"\x1f\x8b":
            whole, made = gzip.decompress(whole), gzip.decompress(made)
    if whole.startswith(b"SQLite format 3\0"):
        return ANOTHER if _is_database(made) else None
    documents = [_parse_all(data) for data in (whole, made)]
    if documents[0] is not None:
        if documents[1] is None:
            return None
        if _is_part(documents[1], documents[0]):
            return REMOVED
        return ANOTHER if set(_list_types(documents[1])) <= set(_list_types(documents[0])) else None
    if is_text(whole):
        return _judge_text(kind, whole, made)
    if whole.startswith(b"PERFILE2"):
        return ANOTHER if _list_records(made) == _list_records(whole) else None
    messages = [_split_messages(data) for data in (whole, made)]
    if messages[0] is not None and messages[1] is not None:
        joined = [b"".join(b"\x0a" + _size(one) + one for one in found) for found in messages]
        return ANOTHER if _is_message(*joined) else None
    return ANOTHER if _is_message(whole, made) else None


def _judge_text(kind: str, whole: bytes, made: bytes) -> str | None:
    if made[-1:] != whole[-1:]:
        return None
    # Blank lines behind the last are nothing, and none of XML is anything.
    before, after = whole.rstrip().splitlines(), made.rstrip().splitlines()
    if whole.startswith(b"<?xml"):
        after = [line for line in after if line.strip()]
    known = iter(before)
    if all(line in known for line in after):  # in order: `in` goes on behind what it found
        return REMOVED
    if kind in _DASHES:
        after = [_DASH.sub(b"0", line) for line in after]
        before = [_DASH.sub(b"0", line) for line in before]
    shapes = {_shape(line) for line in before}
    grammar = GRAMMARS.get(kind)
    if all(
        _shape(line) in shapes or (grammar is not None and grammar.fullmatch(line))
        for line in after
    ):
        return ANOTHER
    return None


def _shape(line: bytes) -> bytes:
    return _NUMBER.sub(lambda found: b"0.0" if found[1] else b"0", line)


def _parse_all(data: bytes) -> Any:
    """The document, or the documents of all lines; None where one is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        pass
    lines = data.splitlines()
    try:
        return [json.loads(line) for line in lines] if len(lines) > 1 else None
    except (ValueError, RecursionError):
        return None


def _is_part(made: Any, whole: Any) -> bool:
    """Whether it is the other with keys and items left out."""
    if isinstance(made, dict) and isinstance(whole, dict):
        return all(key in whole and _is_part(value, whole[key]) for key, value in made.items())
    if isinstance(made, list) and isinstance(whole, list):
        known = iter(whole)
        return all(any(_is_part(one, other) for other in known) for one in made)
    return type(made) is type(whole) and bool(made == whole)


def _list_types(value: Any, above: _Path = ()) -> Iterator[_Path]:
    """Each place with the type of what stands there; all items of a list have one place."""
    # A text that holds a number is as much of one as before: "(500Mhz)", "GPU-7".
    digits = _shape(value.encode(errors="replace")) if isinstance(value, str) else b""
    yield (*above, type(value).__name__, digits if b"0" in digits else b"")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _list_types(inner, (*above, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _list_types(inner, (*above, "[]"))


def _is_database(data: bytes) -> bool:
    """Whether SQLite finds nothing wrong, and no value is of another type than its column."""
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(data)
        if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return False
        if db.execute("PRAGMA foreign_key_check").fetchall():
            return False
        asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        return all(_fits(db, name) for (name,) in db.execute(asked).fetchall())
    except (sqlite3.Error, UnicodeError, OverflowError):
        return False
    finally:
        db.close()


def _fits(db: sqlite3.Connection, table: str) -> bool:
    for _, column, declared, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall():
        kinds = {k for (k,) in db.execute(f'SELECT DISTINCT typeof("{column}") FROM "{table}"')}
        allowed = {"null"} | _types_of(str(declared).upper())
        if not kinds <= allowed:
            return False
    return True


def _types_of(declared: str) -> set[str]:
    """What a column of this declaration holds (SQLite, "Determination of column affinity")."""
    if "INT" in declared:
        return {"integer"}
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return {"text"}
    if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
        return {"real", "integer"}
    return {"integer", "real", "text", "blob"}


def _list_records(data: bytes) -> list[Any] | None:
    """Kind, flags and size of each record of perf.data; None where its header leads elsewhere."""
    if len(data) < 104:
        return None
    at, size = (int.from_bytes(data[n : n + 8], "little") for n in (40, 48))
    found: list[Any] = [data[:104]]
    end = at + size
    while at + 8 <= end <= len(data):
        kind, flags, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            return None
        # Of a sample its addresses and times may be others; all else is as it was.
        is_sample = kind == _SAMPLE
        found.append((kind, flags, length, b"" if is_sample else data[at : at + length]))
        at += length
    return found if at == end else None


def _split_messages(data: bytes) -> list[bytes] | None:
    """Messages, each behind its length (Chakra's traces); None where they do not add up."""
    found, at = [], 0
    while at < len(data):
        size, at = _varint(data, at)
        if not size or at + size > len(data):
            return None
        found.append(data[at : at + size])
        at += size
    return found


def _size(data: bytes) -> bytes:
    size, told = len(data), bytearray()
    while size > 0x7F:
        told.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*told, size])


def _is_message(whole: bytes, made: bytes) -> bool:
    """Whether every byte is of a field that the undamaged message has at the same place."""
    schema: dict[_Path, bool] = {}
    if not _learn(whole, (), schema):
        return False
    return _obeys(made, (), schema)


def _read_fields(data: bytes) -> list[tuple[int, int, bytes]] | None:
    """Number, wire type and bytes of each field; None where the bytes are no message."""
    found, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        size = {1: 8, 5: 4}.get(kind)
        if kind == 0:
            begin = at
            _, at = _varint(data, at)
        elif kind == 2:
            size, begin = _varint(data, at)
            at = begin + size
        elif size is not None:
            begin, at = at, at + size
        else:
            return None
        if not number or at > len(data):
            return None
        found.append((number, kind, data[begin:at]))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return 0, len(data) + 1


def _learn(data: bytes, above: _Path, schema: dict[_Path, bool]) -> bool:
    """Note each field, and whether all that stand there are messages."""
    fields = _read_fields(data)
    if fields is None:
        return False
    for number, kind, inner in fields:
        place = (*above, number, kind)
        is_message = (
            kind == 2 and len(place) < 40 and bool(inner) and _read_fields(inner) is not None
        )
        schema[place] = schema.get(place, True) and is_message
    for number, kind, inner in fields:
        place = (*above, number, kind)
        if schema[place]:
            _learn(inner, place, schema)
    return True


def _obeys(data: bytes, above: _Path, schema: dict[_Path, bool]) -> bool:
    fields = _read_fields(data)
    for number, kind, inner in fields or ():
        place = (*above, number, kind)
        if place not in schema or (schema[place] and not _obeys(inner, place, schema)):
            return False
    return fields is not None
