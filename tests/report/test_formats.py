"""Numbers of a table as a person reads them, and as a program does."""

from __future__ import annotations

import json

import polars as pl
import pytest

from sightline.model.columns import Column, number, real, text
from sightline.report.formats import write


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
