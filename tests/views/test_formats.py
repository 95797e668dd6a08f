"""Numbers of a table as a person reads them, and as a program does."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.model.columns import Column, number, real, text
from sightline.views.tables import Reading, write


def one_cell(value: float, unit: str) -> str:
    """The last line of a table of one number."""
    column = real("value", "", unit)
    frame = pl.DataFrame({"value": [value]}, schema={"value": pl.Float64})
    return write(frame, (column,), "table", 0).decode().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (795_177_000_000.0, "bytes/s", "795.2 GB/s"),
        (312e12, "FLOP/s", "312.0 TFLOP/s"),
        (1.374e9, "FLOP", "1.374 GFLOP"),
        (41.25, "%", "41.2 %"),
        (2.5, "GB/s", "2.50"),
    ],
)
def test_a_rate_is_read_with_its_unit(value: float, unit: str, said: str) -> None:
    assert one_cell(value, unit) == said


QUANTITIES = (
    number("kernel_id", "", required=True),
    Column("value", pl.Float64, "", unit_in="unit"),
    text("unit", ""),
)
ROWS = pl.DataFrame(
    {
        "kernel_id": [0, 1, 2, 3],
        "value": [2e9, 42.3, 15.875, None],
        "unit": ["bytes/s", "%", "sectors", "sectors"],
    }
)


def test_rows_with_units_of_their_own() -> None:
    lines = write(ROWS, QUANTITIES, "table", 0).decode().splitlines()
    assert lines[0].split() == ["kernel_id", "value"]
    assert [line.split(maxsplit=1)[1] for line in lines[2:]] == [
        "2.000 GB/s",
        "42.3 %",
        "15.88 sectors",
        "-",
    ]


def test_a_program_reads_them_as_they_are() -> None:
    assert json.loads(write(ROWS, QUANTITIES, "json", 0))[0] == {
        "kernel_id": 0,
        "value": 2e9,
        "unit": "bytes/s",
    }


_COLUMNS_OF_7 = (
    text("name", ""),
    number("device_id", ""),
    number("launch_id", ""),
    number("total_ns", "", unit="ns"),
    number("least_ns", "", unit="ns"),
    number("most_ns", "", unit="ns"),
    real("share_pct", "", unit="%"),
)
_ROWS_OF_7 = pl.DataFrame(
    {
        "name": ["a" * 30, "b"],
        "device_id": [0, 0],
        "launch_id": [17, 18],
        "total_ns": [1_500_000, 20_000],
        "least_ns": [100, 200],
        "most_ns": [1_000, 2_000],
        "share_pct": [75.0, 1.0],
    }
)


def _read(width: int, rows: pl.DataFrame = _ROWS_OF_7) -> str:
    return write(rows, _COLUMNS_OF_7, "table", 0, Reading(width)).decode()


def test_a_table_that_fits_is_whole() -> None:
    assert _read(200) == write(_ROWS_OF_7, _COLUMNS_OF_7, "table", 0).decode()


def test_texts_are_cut_before_columns_are_left_out() -> None:
    assert _read(87) == (
        "name                      device_id  launch_id     total   least      most  share_pct\n"
        "------------------------  ---------  ---------  --------  ------  --------  ---------\n"
        "aaaaaaaaaaaaaaa…aaaaaaaa          0         17  1.500 ms  100 ns  1.000 µs     75.0 %\n"
        "b                                 0         18  20.00 µs  200 ns  2.000 µs      1.0 %\n"
    )


def test_what_is_no_news_goes_first_then_numbers_of_rows_then_the_middle() -> None:
    assert _read(50) == (
        "name                             total  share_pct\n"
        "----------------------------  --------  ---------\n"
        "aaaaaaaaaaaaaaaaaa…aaaaaaaaa  1.500 ms     75.0 %\n"
        "b                             20.00 µs      1.0 %\n"
        "in every row: device_id 0\n"
        "no room for launch_id, least, most: pipe the table\n"
        "  into  less -S\n"
    )


def test_of_one_row_nothing_is_left_out() -> None:
    for device in (0, 3):  # nothing is left out of it, so that nothing is said of that
        text = _read(50, _ROWS_OF_7.head(1).with_columns(device_id=device))
        assert "in every row" not in text
        assert f"device_id  {device}\n" in text


@given(st.integers(1, 120))
def test_no_column_is_lost_and_no_line_too_long(width: int) -> None:
    said = _read(width)
    for head in ("name", "device_id", "launch_id", "total", "least", "most", "share_pct"):
        assert head in said.replace("\n  ", "")
    lines = said.splitlines()
    assert max(map(len, lines)) <= max(width, len(lines[1]))
    assert "  " not in lines[1] or len(lines[1]) <= width
