"""Hands over integer columns of a SQLite table as packed text. Standard library only.

Python's sqlite3 makes an object of each value, about 120 ns apiece on our 2-core machine; letting
SQLite print the rows and a CSV reader parse them takes about 75 ns, and a column that has one
value throughout a chunk need not be handed over at all (15 ns to make sure). SQLite's threads
share one allocator lock, so two cores need two processes: this file is then run as a program,
which starts in 30 ms because it imports nothing of ours. It reads one line from stdin,
[table, [column, ...], [[first rowid, last rowid], ...]], and answers each span with one JSON line,
{"rows": n, "constant": {index: value}, "bytes": n} or {"error": text}, then that many bytes of
CSV: the other columns, in order, without a header.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any
from urllib.parse import quote

# What reading a damaged file raises: SQLite's own error, or its message if that is no UTF-8.
FAILURES = (sqlite3.Error, UnicodeError, OverflowError)


def connect(path: str, *, salvage: bool = False) -> sqlite3.Connection:
    """The database, read-only; SQLite takes no lock and makes no file beside it."""
    # immutable: also on a read-only file system, and although a -wal file may lie there.
    uri = f"file:{quote(path)}?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    if salvage:
        # Lets SQLite open a file that is shorter than its header says; nothing is written.
        db.execute("PRAGMA writable_schema=ON")
    return db


def pack(
    db: sqlite3.Connection, table: str, columns: list[str], first: int, last: int
) -> tuple[dict[str, Any], bytes]:
    """The rows from one rowid to another: what is constant, and the rest as CSV."""
    span = f"FROM {table} WHERE rowid BETWEEN {first} AND {last}"
    start = db.execute(f"SELECT rowid, {', '.join(columns)} {span} LIMIT 1").fetchone()
    if start is None:
        return {"rows": 0, "constant": {}, "bytes": 0}, b""
    same = _constant(db, table, columns, start, last)
    varying = [c for i, c in enumerate(columns) if i not in same]
    if not varying:
        (count,) = db.execute(f"SELECT count(*) {span}").fetchone()
        return {"rows": count, "constant": same, "bytes": 0}, b""
    # %s prints an integer as it is and a null as nothing.
    form = ",".join(["%s"] * len(varying))
    if len(varying) == 1:
        form += ",0"  # a line that is empty would not be seen as a null
    printed = f"printf('{form}', {', '.join(varying)})"
    count, text = db.execute(
        f"SELECT count(*), CAST(group_concat({printed}, char(10)) AS BLOB) {span}"
    ).fetchone()
    return {"rows": count, "constant": same, "bytes": len(text)}, text


def _constant(
    db: sqlite3.Connection, table: str, columns: list[str], start: tuple[Any, ...], last: int
) -> dict[int, Any]:
    """Columns that keep their first row's value up to the last row."""
    rowid, *values = start
    candidates = {
        i: v for i, v in enumerate(values) if v is None or (type(v) is int and abs(v) < 2**63)
    }
    while candidates:
        differs = " OR ".join(
            f"{columns[i]} IS NOT {'NULL' if v is None else v}" for i, v in candidates.items()
        )
        found = db.execute(
            f"SELECT rowid, {', '.join(columns[i] for i in candidates)} FROM {table} "  # noqa: S608
            f"WHERE rowid > {rowid} AND rowid <= {last} AND ({differs}) LIMIT 1"
        ).fetchone()
        if found is None:
            break
        rowid, *values = found
        candidates = {
            i: v
            for (i, v), now in zip(candidates.items(), values, strict=True)
            if now == v and type(now) is type(v)
        }
    return candidates


def serve(path: str) -> None:
    """Answer the job that arrives on stdin."""
    db = connect(path)
    table, columns, spans = json.loads(sys.stdin.readline())
    for first, last in spans:
        try:
            head, body = pack(db, table, columns, first, last)
        except FAILURES as error:
            head, body = {"error": str(error)}, b""
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
