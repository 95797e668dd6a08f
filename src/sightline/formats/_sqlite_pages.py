"""Pages of a SQLite file that stand where another table's would: what SQLite itself does not see.

Format: https://www.sqlite.org/fileformat2.html, sections 1.6 (B-tree pages) and 2.1 (records). A
page that a disk wrote to another's place is whole in itself; the rows on it are of another table.
Of each leaf the first record is looked at: pages move as a whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LEAF, _INNER = 0x0D, 0x05  # of tables with rows' numbers
_TEXT = ("CHAR", "CLOB", "TEXT")


class _Table(NamedTuple):
    root: int
    columns: int
    alias: int | None  # the column that is the row's number, and is stored as NULL
    texts: frozenset[int]  # columns in which SQLite stores no number (TEXT affinity)
    is_altered: bool  # columns were added later: older rows lack them


def count_foreign_pages(db: sqlite3.Connection, path: Path, *, is_altered: bool) -> int:
    """How many leaves of tables begin with a record that cannot be one of their table.

    `is_altered`: the tool that wrote the file adds columns to tables that have rows.

    Raises OSError, sqlite3.Error; what is no page is left to SQLite's own check.
    """
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512:
        return 0
    count = 0
    for table in _list_tables(db, is_altered):
        for page in _list_leaves(data, size, table.root):
            count += not _may_be_of(table, _read_first_types(data, size, page))
    return count


def _list_tables(db: sqlite3.Connection, is_altered: bool) -> Iterator[_Table]:
    listed = db.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
    for name, root in listed:
        quoted = '"' + str(name).replace('"', '""') + '"'
        found = db.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
        stored = [row for row in found if row[6] in (0, 3)]
        keys = [place for place, row in enumerate(stored) if row[5]]
        is_alias = len(keys) == 1 and str(stored[keys[0]][2]).upper() == "INTEGER"
        kinds = [str(row[2]).upper() for row in stored]
        texts = frozenset(
            place
            for place, kind in enumerate(kinds)
            if "INT" not in kind and any(word in kind for word in _TEXT)
        )
        if isinstance(root, int) and root > 0 and stored:
            yield _Table(root, len(stored), keys[0] if is_alias else None, texts, is_altered)


def _list_leaves(data: bytes, size: int, root: int) -> Iterator[int]:
    """The numbers of a table's leaves; each page once, whatever points to it."""
    waiting, seen = [root], set()
    while waiting:
        page = waiting.pop()
        begin = (page - 1) * size
        if page in seen or begin < 0 or begin + size > len(data):
            continue
        seen.add(page)
        head = begin + (100 if page == 1 else 0)
        if data[head] == _LEAF:
            yield page
        elif data[head] == _INNER:
            cells = int.from_bytes(data[head + 3 : head + 5], "big")
            waiting.append(int.from_bytes(data[head + 8 : head + 12], "big"))
            for cell in range(min(cells, size // 2)):
                at = head + 12 + 2 * cell
                place = begin + int.from_bytes(data[at : at + 2], "big")
                waiting.append(int.from_bytes(data[place : place + 4], "big"))


def _read_first_types(data: bytes, size: int, page: int) -> list[int] | None:
    """The serial types of a leaf's first record; None where it has none, or none that is whole."""
    begin = (page - 1) * size
    head = begin + (100 if page == 1 else 0)
    if not int.from_bytes(data[head + 3 : head + 5], "big"):
        return None
    at = begin + int.from_bytes(data[head + 8 : head + 10], "big")
    end = begin + size
    _, at = _read_varint(data, at, end)  # bytes of the record
    _, at = _read_varint(data, at, end)  # its row's number
    length, after = _read_varint(data, at, end)
    if at + length > end:  # a header that goes on elsewhere: of hundreds of columns
        return None
    types, at, end = [], after, at + length
    while at < end:
        kind, at = _read_varint(data, at, end)
        types.append(kind)
    return types


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(at, min(at + 9, end)):
        byte = data[place]
        if place == at + 8:
            return (value << 8) | byte, place + 1
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, place + 1
    return value, end


def _may_be_of(table: _Table, types: list[int] | None) -> bool:
    """Whether a record of these types may be one of a table; columns that came later are absent."""
    if types is None:
        return True
    if len(types) > table.columns or (len(types) < table.columns and not table.is_altered):
        return False
    if table.alias is not None and table.alias < len(types) and types[table.alias] != 0:
        return False
    return not any(1 <= types[place] <= 9 for place in table.texts if place < len(types))
