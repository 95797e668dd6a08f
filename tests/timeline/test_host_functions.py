"""host_functions.tsv: each row by a name as profilers write it."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.timeline.host_functions import (
    HostFunction,
    find_host_functions,
    list_host_functions,
)

ROWS = list_host_functions()


def find(layer: str, function: str, file: str | None = None) -> HostFunction | None:
    frame = pl.DataFrame({"layer": [layer], "function": [function], "file": [file]})
    (row,) = find_host_functions(frame.with_columns(pl.col("file").cast(pl.String))).to_list()
    return None if row is None else ROWS[row]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.example)
def test_a_row_knows_its_example(row: HostFunction) -> None:
    assert row.source
    if row.looks_at == "python":
        function, file = row.example.split(" ", 1)
        place = file if file.startswith("<") else f"/usr/lib/python3.12/{file}"
        assert find("python", function, place) == row
        # As Python 3.11 and later say it, with the class before.
        assert find("python", f"Thing.{function}", place) == row
    else:
        assert find("native", row.example) == row


@pytest.mark.parametrize(
    ("layer", "function", "file"),
    [
        ("python", "read_all", "loader.py"),
        ("python", "wait", "/home/user/train.py"),  # a program's own, of an everyday name
        ("native", "readRows", None),
        ("native", "update_positions(float*, int)", None),
    ],
)
def test_a_programs_own_function_is_none_of_them(layer: str, function: str, file: str) -> None:
    assert find(layer, function, file) is None
