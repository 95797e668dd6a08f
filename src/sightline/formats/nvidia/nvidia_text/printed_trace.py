"""A row of `nvprof --print-gpu-trace` or `--print-api-trace` as printed: the columns of its CSV."""

from __future__ import annotations

import re

from sightline.formats._pasted_lines import cut_cells
from sightline.formats.nvidia._nvprof import Row

_FIGURE = re.compile(r"^([\d.]{1,20})(ns|us|µs|ms|s|B|KB|MB|GB)$")
_SIZE = re.compile(r"^\((\d{1,10}) (\d{1,10}) (\d{1,10})\)$")
_NUMBERED = re.compile(r"^(.*?)\s*\[(\d{1,15})\]$")
_LAUNCH = re.compile(r"^(cu\w+) \((.*)\)$")
# What is printed above a column, and what its CSV calls it.
_SAME = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}


def read_printed(header: list[str], line: str) -> Row | None:
    """The row by columns, cells with their units; None for a line that is none."""
    cells = cut_cells(line, len(header))
    if len(cells) != len(header) or not _FIGURE.match(cells[0]):
        return None
    row: Row = {}
    for column, cell in zip(header, cells, strict=True):
        if cell == "-":
            continue
        if (size := _SIZE.match(cell)) is not None:
            word = column.partition(" ")[0]
            row |= {f"{word} {axis}": (n, "") for axis, n in zip("XYZ", size.groups(), strict=True)}
        elif (figure := _FIGURE.match(cell)) is not None and column != "Name":
            row[_SAME.get(column, column)] = (figure[1], figure[2])
        else:
            row[_SAME.get(column, column)] = (cell, "")
    return _number(row)


def _number(row: Row) -> Row:
    """With the number that a kernel and its launch share behind their names."""
    name = row.get("Name", ("", ""))[0]
    launch = _LAUNCH.match(name)
    numbered = _NUMBERED.match(name if launch is None else launch[2])
    if numbered is not None:
        row["Correlation_ID"] = (numbered[2], "")
        row["Name"] = (numbered[1] if launch is None else launch[1], "")
    return row
