"""Damage that knows what a file is made of: lines, cells, JSON values, rows and pages of databases.

Each kind of damage says whether what is left is whole in itself (`REMOVES`): a log without a line,
a list without an item. Where nothing in the file counts them, nobody can see that one is gone.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What is left is a recording as its tool could have written it.
REMOVES = frozenset({"line dropped", "line doubled", "item dropped", "key dropped", "row deleted",
                     "cut behind a line", "table dropped", "lines dropped"})  # fmt: skip
_ODD = (None, "x", -1, 2**70, 1.5, [], {}, True, "", "\ud800", "9" * 5_000)
_SEPARATORS = (",", ";", "\t", "|", ":")
Damage = Callable[[bytes, random.Random], bytes]


def damage_structure(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """The kind of damage, and what the file is then. Packed files are unpacked and packed again."""
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.8:
        with contextlib.suppress(OSError, EOFError):
            how, made = damage_structure(gzip.decompress(data), rng)
            return how, gzip.compress(made, 1)
    kinds = list(_BYTES)
    if data.startswith(b"SQLite format 3\0"):
        kinds = [*_DATABASE, "flip", "cut"]
    elif is_text(data):
        kinds = [*_TEXT, *_TEXT, "flip", "cut", "cut"]
        if _parse(data) is not None:
            kinds = [*_JSON, *_JSON, "flip", "cut", "digit"]
    how = rng.choice(kinds)
    return how, _ALL[how](data, rng)


def is_text(data: bytes) -> bool:
    """Whether it is lines."""
    return b"\0" not in data[:4096] and b"\n" in data and sum(b > 126 for b in data[:4096]) < 400


def _flip(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data or b"\0")
    made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, max(len(data), 2))]


def _remove(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(len(data), 1))
    return data[:at] + data[at + rng.choice((1, 2, 8, 50)) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(max(len(data), 1)), rng.choice((1, 4, 8, 100))
    return data[: at + size] + data[at:]


def _zero(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(len(data), 1))
    size = min(rng.choice((4, 8, 64, 512)), len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def _enlarge(data: bytes, rng: random.Random) -> bytes:
    """A byte that may be a length or a count is another."""
    made = bytearray(data or b"\0")
    made[rng.randrange(len(made))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(made)


def _of_lines(change: Callable[[list[bytes], int, random.Random], None]) -> Damage:
    def damage(data: bytes, rng: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines, rng.randrange(len(lines)), rng)
        return b"".join(lines)

    return damage


def _drop_line(lines: list[bytes], at: int, rng: random.Random) -> None:
    del lines[at]


def _drop_lines(lines: list[bytes], at: int, rng: random.Random) -> None:
    del lines[at : at + rng.randint(2, max(2, len(lines) // 3))]


def _double_line(lines: list[bytes], at: int, rng: random.Random) -> None:
    lines.insert(at, lines[at])


def _cut_behind(lines: list[bytes], at: int, rng: random.Random) -> None:
    del lines[at + 1 :]


def _cut_line(lines: list[bytes], at: int, rng: random.Random) -> None:
    line = lines[at].rstrip(b"\r\n")
    lines[at] = line[: rng.randrange(max(len(line), 1))] + b"\n"


def _join_lines(lines: list[bytes], at: int, rng: random.Random) -> None:
    lines[at] = lines[at].rstrip(b"\r\n")


def _change_cell(lines: list[bytes], at: int, rng: random.Random) -> None:
    text = lines[at].decode(errors="replace").rstrip("\n")
    mark = max(_SEPARATORS, key=text.count)
    cells = text.split(mark) if mark in text else re.split(r"(\s+)", text)
    place = rng.randrange(len(cells))
    if rng.random() < 0.4:
        del cells[place]
    else:
        cells[place] = rng.choice(("", "x", "-1", "1e999", "nan", "9" * 30, "\u0663"))
    lines[at] = ((mark if mark in text else "").join(cells) + "\n").encode()


def _garble_line(lines: list[bytes], at: int, rng: random.Random) -> None:
    lines[at] = bytes(rng.randrange(33, 127) for _ in lines[at][:60]) + b"\n"


def _change_digit(data: bytes, rng: random.Random) -> bytes:
    found = [m.start() for m in re.finditer(rb"\d", data[:500_000])]
    if not found:
        return _flip(data, rng)
    at = rng.choice(found)
    return data[:at] + rng.choice((b"x", b"", b"-", b"99", b".")) + data[at + 1 :]


def _parse(data: bytes) -> Any:
    """The document, or the list of a line's documents; None where it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _list_places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    places = [above] if above else []
    if isinstance(value, dict | list) and len(above) < 40:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            places += _list_places(inner, (*above, key))
    return places


def _of_json(change: Callable[[Any, Any, random.Random], None], within: type) -> Damage:
    def damage(data: bytes, rng: random.Random) -> bytes:
        document = copy.deepcopy(_parse(data))
        places = _list_places(document)
        rng.shuffle(places)
        for place in places:
            holder = document
            for key in place[:-1]:
                holder = holder[key]
            if isinstance(holder, within):
                change(holder, place[-1], rng)
                return json.dumps(document).encode()
        return _cut(data, rng)

    return damage


def _delete(holder: Any, key: Any, rng: random.Random) -> None:
    del holder[key]


def _replace(holder: Any, key: Any, rng: random.Random) -> None:
    holder[key] = rng.choice(_ODD)


def _on_database(change: Callable[[sqlite3.Connection, str, random.Random], None]) -> Damage:
    def damage(data: bytes, rng: random.Random) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.db"
            path.write_bytes(data)
            db = sqlite3.connect(path)
            with contextlib.suppress(sqlite3.Error):
                asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
                tables = [name for (name,) in db.execute(asked) if not name.startswith("sqlite_")]
                full = [t for t in tables if db.execute(f'SELECT 1 FROM "{t}" LIMIT 1').fetchone()]
                if full:
                    change(db, rng.choice(full), rng)
                db.commit()
            db.close()
            return path.read_bytes()

    return damage


def _pick_row(db: sqlite3.Connection, table: str, rng: random.Random) -> int:
    rows = [row for (row,) in db.execute(f'SELECT rowid FROM "{table}" LIMIT 1000')]
    return int(rng.choice(rows))


def _delete_row(db: sqlite3.Connection, table: str, rng: random.Random) -> None:
    db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (_pick_row(db, table, rng),))


def _change_row(db: sqlite3.Connection, table: str, rng: random.Random) -> None:
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    value = rng.choice((None, "x", -1, 1.5, b"\0", 2**62, ""))
    where = (value, _pick_row(db, table, rng))
    db.execute(f'UPDATE OR IGNORE "{table}" SET "{rng.choice(columns)}" = ? WHERE rowid = ?', where)


def _drop_table(db: sqlite3.Connection, table: str, rng: random.Random) -> None:
    db.execute(f'DROP TABLE "{table}"')


def _zero_page(data: bytes, rng: random.Random) -> bytes:
    size = int.from_bytes(data[16:18], "big") or 4096
    size = 65536 if size == 1 else size
    page = rng.randrange(1, max(len(data) // size, 2))
    return data[: page * size] + bytes(size) + data[(page + 1) * size :]


def _swap_pages(data: bytes, rng: random.Random) -> bytes:
    size = int.from_bytes(data[16:18], "big") or 4096
    size = 65536 if size == 1 else size
    pages = [data[n : n + size] for n in range(0, len(data), size)]
    if len(pages) > 2:
        a, b = rng.sample(range(1, len(pages)), 2)
        pages[a], pages[b] = pages[b], pages[a]
    return b"".join(pages)


_BYTES: dict[str, Damage] = {
    "flip": _flip, "cut": _cut, "bytes removed": _remove, "bytes repeated": _repeat,
    "zeros": _zero, "length": _enlarge,
}  # fmt: skip
_TEXT: dict[str, Damage] = {
    "line dropped": _of_lines(_drop_line), "lines dropped": _of_lines(_drop_lines),
    "line doubled": _of_lines(_double_line), "cut behind a line": _of_lines(_cut_behind),
    "line cut": _of_lines(_cut_line), "lines joined": _of_lines(_join_lines),
    "cell": _of_lines(_change_cell), "line garbled": _of_lines(_garble_line),
    "digit": _change_digit,
}  # fmt: skip
_JSON: dict[str, Damage] = {
    "item dropped": _of_json(_delete, list), "key dropped": _of_json(_delete, dict),
    "item replaced": _of_json(_replace, list), "value replaced": _of_json(_replace, dict),
}  # fmt: skip
_DATABASE: dict[str, Damage] = {
    "row deleted": _on_database(_delete_row), "row changed": _on_database(_change_row),
    "table dropped": _on_database(_drop_table), "page zeroed": _zero_page,
    "pages swapped": _swap_pages,
}  # fmt: skip
_ALL = {**_BYTES, **_TEXT, **_JSON, **_DATABASE}
