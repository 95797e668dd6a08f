"""What PyTorch's profiler prints: `prof.key_averages().table()`, wherever it was pasted.

It may stand in a log, a Markdown page, a notebook's output or the comments of a source file; of
several tables in one text each is a run of its own.

A row is an operator, a call of the runtime, a kernel or copy, or a range on the device. Operators'
"Self CUDA" is the kernels that they launched, so that kernels and operators are two views of one
time; a range's is all that ran inside it. PyTorch prints each of them by name alone: what has no
time on the CPU is the device's own, and where a row of that name has some, a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._notebook import unpack_notebook
from sightline.formats._pasted_lines import drop_marks, list_lines
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import (
    COPY,
    FILL,
    KERNEL,
    RANGE,
    import_sums,
    note_several,
    read_count,
    read_duration,
)

IMPORTER = Importer(
    name="key_averages",
    label="PyTorch profiler, key_averages().table()",
    strong=(
        # vLLM prints it into its log, which has a reader of its own (torch_profiler_dump_cuda_...).
        rb"\A(?!.*?INFO \d\d-\d\d \d\d:\d\d:\d\d[^\n]{0,40}\[\w+\.py:\d+\])(?:.*?\n)?"
        rb"[ \t#/*>]*-{8,}  -{8,}[- ]*\r?\n[^\n]*\bName  [^\n]*Self CPU[^\n]*# of Calls",
        # Lines of a notebook's output, which JSON holds as texts.
        rb"-{8,}  -{8,}[- ]*\\n[\", \t\r\n]{0,40}[^\n]{0,80}\bName  [^\n]{0,600}Self CPU"
        rb"[^\n]{0,600}# of Calls",
    ),
    weak=(),
    looks_like="a table with Name, Self CPU, CPU total, # of Calls between lines of dashes",
    suffixes=(".txt", ".log", ".out"),
    version=8,
    source="https://pytorch.org/docs/stable/autograd.html#torch.autograd.profiler.profile",
    in_logs=(b"# of Calls",),
)

_RULE = re.compile(r"^\s*-{8,}(?:  -{8,})+\s*$")
_BEYOND = 8  # characters
_DEVICE = re.compile(r"^Self (?!CPU)([A-Z]\w*)$")
_TOTAL = re.compile(r"^\s*(Self [A-Z]\w*) time total:\s*(\S+)\s*$")
_VALUE = re.compile(r"^[\d.,]+(?:%|ns|us|ms|s)?$")
_TIME = re.compile(r"^\d{1,9}\.\d{3}(?:ns|us|µs|ms|s)$")
_OF_TIME = re.compile(r"^(?:Self [A-Z]+|[A-Z]+ total|[A-Z]+ time avg)$")
_CALL = re.compile(r"^(?:cuda|hip)[A-Z]\w+$|^cu[A-Z]\w+$")  # of the runtime or the driver
# How far a total may be above the sum of its rows by rounding: they have three decimals (ours).
_ROUNDING = 1e-3
NOT_PRINTED = "(rows that were not printed)"


@dataclass
class _Table:
    """One printed table: its rows by column, and the totals below it in ns, as `Self CUDA`."""

    rows: list[dict[str, str]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables of the file. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    lost: list[str] = []
    text = unpack_notebook(read_text(source, notes))
    tables = _list_tables([drop_marks(line) for line in list_lines(text)], lost)
    lost += [name for table in tables for name in _list_lost(table)]
    described = [found for table in tables if (found := list(_describe_table(table)))]
    if not described:
        raise DamagedError(f"cannot read {source.given}", why="its table has no row")
    notes += [*note_bad_lines(len(lost), "row of the table"), *note_several(len(described))]
    rows = [
        {**row, "part": number if len(described) > 1 else None}
        for number, found in enumerate(described)
        for row in found
    ]
    return import_sums(rows, "PyTorch profiler", notes)


def _list_tables(lines: list[str], lost: list[str]) -> list[_Table]:
    """All tables; what is not a row, and ends that are missing, are added to the lost."""
    tables: list[_Table] = []
    columns: list[tuple[int, int]] = []
    names: list[str] = []
    for number, line in enumerate(lines):
        if _RULE.match(line):
            # A table of one row has a rule two lines below its head, too.
            head = lines[number + 1].split() if number + 2 < len(lines) else []
            if "Name" in head and _RULE.match(lines[number + 2]):
                columns = [match.span() for match in re.finditer(r"-+", line)]
                names = _name_columns(lines[number + 1], columns)
                tables.append(_Table())
            elif not number or not names or lines[number - 1].split()[:1] != ["Name"]:
                columns = []  # the table's end
            continue
        if not columns:
            if tables and (total := _TOTAL.match(line)) and (ns := read_duration(total[2])):
                tables[-1].totals.setdefault(total[1], ns)
                if not _TIME.match(total[2]):
                    lost.append(line)
            continue
        if "Name" not in names or "Self CPU" not in names:
            continue
        cells = dict(zip(names, _cut_row(line, columns, len(names)), strict=True))
        if cells == dict(zip(names, names, strict=True)):
            continue
        is_row = bool(cells["Name"]) and read_count(cells.get("# of Calls", "")) is not None
        # Columns are wider than what stands in them: a line that is longer is two.
        if not is_row or len(line.rstrip()) > columns[-1][1] + _BEYOND:
            lost.append(line)
        if is_row:
            tables[-1].rows.append(cells)
    if columns:
        lost.append("the rule below the last row")
    return tables


def _list_lost(table: _Table) -> Iterator[str]:
    """Rows with a time that is none, as PyTorch prints all: `345.077ms`, with three decimals."""
    for cells in table.rows:
        if any(_OF_TIME.match(name) and not _TIME.match(text) for name, text in cells.items()):
            yield cells["Name"]
    if not table.totals:
        yield "the line with the total below the table"


def _cut(line: str, columns: list[tuple[int, int]]) -> list[str]:
    return [line[begin:end].strip() for begin, end in columns]


def _cut_row(line: str, columns: list[tuple[int, int]], width: int) -> list[str]:
    """A row's cells: by their places, or, where an editor moved them, by the blanks between."""
    cells = _cut(line, columns)
    if len(cells) == width and read_count(cells[-1]) is not None:
        return cells
    words = line.rsplit(None, width - 1)
    if len(words) == width and all(_VALUE.match(word) for word in words[1:]):
        return [word.strip() for word in words]
    return [*cells, *[""] * (width - len(cells))]


def _name_columns(head: str, columns: list[tuple[int, int]]) -> list[str]:
    """The columns' names; one that is wider than its column (CUDA time avg) shifts all others."""
    names = re.split(r"\s{2,}", head.strip())
    return names if len(names) >= len(columns) else _cut(head, columns)


def _describe_table(table: _Table) -> Iterator[dict[str, Any]]:
    """The table's rows of `call_sums`, with what its totals hold beyond what was printed."""
    on_cpu = {cells["Name"] for cells in table.rows if _works_on_cpu(cells)}
    rows = [row for cells in table.rows for row in _describe(cells, on_cpu)]
    yield from rows
    total = sum(ns for name, ns in table.totals.items() if name != "Self CPU")
    device = [r for r in rows if r["kind"] == "device"]
    own = [r for r in device if r["category"] in (KERNEL, COPY, FILL)]
    yield from _list_rest(own, total, {"kind": "device", "category": KERNEL})
    operators = [r for r in device if r["category"] is None]
    yield from _list_rest(operators, total, {"kind": "device"})
    host = [r for r in rows if r["kind"] == "host"]
    yield from _list_rest(host, table.totals.get("Self CPU", 0), {"kind": "host", "layer": "op"})


def _list_rest(
    rows: Sequence[dict[str, Any]], total: int, kind: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What a total holds beyond these rows, where it is more than their rounding."""
    rest = total - sum(row["duration_ns"] for row in rows)
    if rows and rest > _ROUNDING * total:
        yield {**kind, "name": NOT_PRINTED, "duration_ns": rest}


def _works_on_cpu(cells: dict[str, str]) -> bool:
    """Whether a row has time on the CPU, its own or that of what it calls."""
    return any(read_duration(cells.get(name, "")) for name in ("Self CPU", "CPU total"))


def _describe(cells: dict[str, str], on_cpu: set[str]) -> Iterator[dict[str, Any]]:
    """A row's time on the host without what it calls, and on its device."""
    calls, name = read_count(cells["# of Calls"]), replace_surrogates(cells["Name"])
    own, works = read_duration(cells["Self CPU"]), _works_on_cpu(cells)
    if own is not None and (works or not _has_device(cells)):
        layer = "runtime" if _CALL.match(name) else "op"
        yield {"kind": "host", "layer": layer, "name": name, "calls": calls, "duration_ns": own}
    category = None if works else RANGE if cells["Name"] in on_cpu else _name_category(name)
    for column, text in cells.items():
        if _DEVICE.match(column) and (ns := read_duration(text)):
            row = {"kind": "device", "category": category, "name": name, "calls": calls}
            yield {**row, "duration_ns": ns}


def _has_device(cells: dict[str, str]) -> bool:
    return any(_DEVICE.match(name) and read_duration(text) for name, text in cells.items())


def _name_category(name: str) -> str:
    """What the device's own rows are called: Memcpy HtoD (Pinned -> Device), Memset (Device)."""
    return COPY if name.startswith("Memcpy") else FILL if name.startswith("Memset") else KERNEL
