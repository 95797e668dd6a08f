"""Writes a small SQLite file with all that a table can have: `make fuzz` damages it."""

from __future__ import annotations

import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA page_size = 512")
db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, text TEXT, c INTEGER)")
db.executemany(
    "INSERT INTO t VALUES (?, ?, ?, ?)",
    # A tree of three levels; some rows go on in overflow pages.
    ((3 * i, (-1) ** i * 7 ** (i % 23), "x" * (i % 97 * (i % 13)), i or None) for i in range(600)),
)
db.commit()
db.close()
