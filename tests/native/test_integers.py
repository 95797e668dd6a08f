"""Integer columns read from a SQLite file's pages, compared with SQLite itself."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import _native
from support.campaigns import sample

Rows = list[tuple[Any, ...]]

CORNERS = [0, 1, -1] + [
    s * (2**b) + d
    for b in (7, 8, 15, 23, 31, 47, 63)
    for s in (1, -1)
    for d in (-1, 0, 1)
    if -(2**63) <= s * 2**b + d < 2**63
]
numbers = st.none() | st.sampled_from(CORNERS) | st.integers(-(2**63), 2**63 - 1)


def written(
    path: Path, rows: Rows, page: int = 4096, columns: str = "a, b, c", key: str = ""
) -> Path:
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA page_size = {page}")
    db.execute(f"CREATE TABLE t ({key}{columns})")
    marks = ", ".join("?" * len(rows[0])) if rows else ""
    db.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    db.commit()
    db.close()
    return path


def root_of(path: Path, table: str = "t") -> int:
    db = sqlite3.connect(path)
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    return int(root)


def read(path: Path, columns: list[int], alias: int = -1, threads: int = 2) -> Rows | None:
    found = _native.integers(str(path), root_of(path), columns, alias, threads)
    if found is None:
        return None
    batch, constants = found
    rows = batch.rows
    if len(constants) < len(columns):
        frame = pl.Series(pl.from_arrow(batch)).struct.unnest()
    values = [
        [constants[i]] * rows if i in constants else frame.get_column(str(i)).to_list()
        for i in range(len(columns))
    ]
    return list(zip(*values, strict=True))


def expected(path: Path, columns: str) -> Rows:
    db = sqlite3.connect(path)
    try:
        return db.execute(f"SELECT {columns} FROM t ORDER BY rowid").fetchall()
    finally:
        db.close()


@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=60),
    st.sampled_from([512, 4096, 65536]),
)
def test_any_integers(tmp_path_factory: pytest.TempPathFactory, rows: Rows, page: int) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any.sqlite", rows, page)
    assert read(path, [0, 1, 2]) == rows
    assert read(path, [2, -1, 0]) == expected(path, "c, rowid, a")


def test_a_deep_tree_of_small_pages(tmp_path: Path) -> None:
    random = Random(0)
    rows: Rows = [
        (i, random.choice(CORNERS), "x" * random.choice([0, 3, 40]), None if i % 3 else 7)
        for i in range(30_000)
    ]
    path = written(tmp_path / "deep.sqlite", rows, 512, "a, b, text, d")
    for threads in (1, 3):
        assert read(path, [0, 1, 3], threads=threads) == [(a, b, d) for a, b, _, d in rows]


@pytest.mark.parametrize("page", [512, 4096, 65536])
def test_texts_that_need_pages_of_their_own(tmp_path: Path, page: int) -> None:
    sizes = [*range(440, 520), page - 40, page - 35, page - 34, page, 3 * page, 5 * page + 17]
    rows: Rows = [(i, "é" * (size // 2), -i) for i, size in enumerate(sizes)]
    path = written(tmp_path / "long.sqlite", rows, page)
    assert read(path, [0, 2]) == [(a, c) for a, _, c in rows]


def test_the_key_is_the_rows_own_number(tmp_path: Path) -> None:
    rows: Rows = [(2**40, 1, 2, 3), (-5, 4, 5, 6), (17, 7, 8, 9)]
    path = written(tmp_path / "key.sqlite", rows, key="id INTEGER PRIMARY KEY, ")
    assert read(path, [0, 1, -1], alias=0) == [(-5, 4, -5), (17, 7, 17), (2**40, 1, 2**40)]


def test_rows_that_were_deleted(tmp_path: Path) -> None:
    path = written(tmp_path / "holes.sqlite", [(i, i, i) for i in range(5_000)])
    db = sqlite3.connect(path)
    db.execute("DELETE FROM t WHERE a % 3 = 0 OR a BETWEEN 1000 AND 3000")
    db.commit()
    db.close()
    assert read(path, [0, -1]) == expected(path, "a, rowid")
    db = sqlite3.connect(path)
    db.execute("DELETE FROM t")
    db.commit()
    db.close()
    assert read(path, [0, -1]) == []


@pytest.mark.parametrize("value", [1.5, "7", b"7"])
def test_another_type_is_left_to_sqlite(tmp_path: Path, value: Any) -> None:
    path = written(tmp_path / "odd.sqlite", [(1, 2, 3), (4, value, 6)])
    assert read(path, [0, 1, 2]) is None
    assert read(path, [0, 2]) == [(1, 3), (4, 6)]


def test_rows_without_a_later_column_are_left_to_sqlite(tmp_path: Path) -> None:
    path = written(tmp_path / "added.sqlite", [(1, 2, 3)])
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 9")
    db.commit()
    db.close()
    assert read(path, [0, 3]) is None


def test_a_table_without_rowids_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "keyed.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b) WITHOUT ROWID")
    db.execute("INSERT INTO t VALUES (1, 2)")
    db.commit()
    db.close()
    assert read(path, [0, 1]) is None


def test_a_file_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _native.integers(str(tmp_path / "none"), 2, [0], -1, 1)


@pytest.mark.parametrize("seed", sample(range(3), 3))
def test_damage_is_refused_or_read_never_a_crash(tmp_path: Path, seed: int) -> None:
    """Bytes that are changed anywhere, pages that point in circles, roots that are none."""
    random = Random(seed)
    rows: Rows = [(i, "x" * (i % 900), i * i) for i in range(800)]
    whole = written(tmp_path / "whole.sqlite", rows, 512).read_bytes()
    root = root_of(tmp_path / "whole.sqlite")
    path = tmp_path / "damaged.sqlite"
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(random.choice([1, 1, 3, 20])):
            at = random.randrange(len(data))
            if random.random() < 0.4:  # a page's head or its first pointers
                at = random.randrange(len(data) // 512) * 512 + random.randrange(16)
            data[at] = random.choice([0, 1, 5, 13, 0x7F, 0x80, 0xFF, random.randrange(256)])
        path.write_bytes(data[: len(data) - random.choice([0, 0, 0, 1, 512, 5000])])
        refused += _native.integers(str(path), root, [0, 2, -1], -1, 2) is None
    assert 0 < refused < 400
    for other in (0, 1, root + 1, len(whole) // 512, len(whole) // 512 + 1, 2**32 - 1):
        _native.integers(str(tmp_path / "whole.sqlite"), other, [0], -1, 1)


def test_pages_that_point_at_themselves(tmp_path: Path) -> None:
    path = written(tmp_path / "circle.sqlite", [(i, i, i) for i in range(5_000)], 512)
    root = root_of(path)
    data = bytearray(path.read_bytes())
    page = data[(root - 1) * 512 : root * 512]
    assert page[0] == 5
    for i in range(int.from_bytes(page[3:5], "big")):
        at = int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big")
        page[at : at + 4] = root.to_bytes(4, "big")
    data[(root - 1) * 512 : root * 512] = page
    path.write_bytes(data)
    assert _native.integers(str(path), root, [0], -1, 2) is None
