"""nvprof's traces as CSV: `nvprof --csv --print-gpu-trace`, `--print-api-trace`, or both at once.

A file has lines of nvprof's own that begin with '=', a line of columns, one of their units (the
unit of a time is chosen for each file: s, ms, us or ns), and a row for each operation or call.
Times count from the first one. NVIDIA, Profiler User's Guide (CUDA 12), "nvprof", Output.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_misspelt
from sightline.formats.nvidia._nvprof import TIMES, Row, make_tables, note_no_host, read_row

IMPORTER = Importer(
    name="nvprof_csv",
    label="nvprof GPU and API traces (CSV)",
    strong=(rb'(?:^|[\r\n])"Start","Duration",(?:"Grid X","Grid Y",|"Name")',),
    weak=(),
    looks_like='CSV with "Start","Duration","Grid X",... or "Start","Duration","Name"',
    suffixes=(".csv", ".log", ".txt"),
    version=4,
    source="https://docs.nvidia.com/cuda/archive/12.4.1/profiler-users-guide/#nvprof",
)

_COLUMNS = (
    "Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z",
    "Registers Per Thread", "Static SMem", "Dynamic SMem", "Size", "Throughput", "SrcMemType",
    "DstMemType", "Device", "Context", "Stream", "Name", "Correlation_ID",
)  # fmt: skip
_LEAST_NAMES = 3  # of a header


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    ops: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    devices: dict[int, str] = {}
    bad = 0
    for row in _list_rows(read_text(source, quality)):
        made = None if row is None else read_row(row, devices)
        if made is None:
            bad += 1
        elif (on_device := made.pop("on_device")) is not None:
            (ops if on_device else calls).append(made)
    if not ops and not calls:
        raise DamagedError(f"cannot read {source.given}", why="it holds no row of a trace")
    tables = make_tables(ops, calls, devices)
    quality += note_bad_lines(bad, "row of nvprof's")
    if ops and not calls:
        quality.append(note_no_host())
    return Imported(tables, Recording("nvprof"), quality)


def _list_rows(text: str) -> Iterator[Row | None]:
    """Each row as column -> (cell, unit); None for one that is not whole."""
    header: list[str] = []
    units: list[str] = []
    for line in text.rstrip().splitlines():
        if header and not line.strip():
            yield None  # between rows and headers stand none
            continue
        if not line.strip() or line.startswith("="):
            # A header may have lost the break before it.
            yield from [None] * ('"Start","Duration"' in line or '"Duration","Start"' in line)
            continue
        try:
            cells = next(csv.reader([line]))
        except (csv.Error, StopIteration):
            yield None
            continue
        if cells[:2] == ["Start", "Duration"]:
            header, units = cells, []
            yield from [None] * count_misspelt(cells, _COLUMNS)
        elif not header:
            # What the program printed before, unless it is a header with a damage.
            yield from [None] * (len({*cells} & {*_COLUMNS}) >= _LEAST_NAMES)
        elif not units:
            units = cells if cells[0] in TIMES else []
            if not units:
                yield None
        elif len(cells) != len(header) or len(units) != len(header):
            yield None
        else:
            pairs = zip(cells, units, strict=True)
            yield dict(zip(header, pairs, strict=True))
