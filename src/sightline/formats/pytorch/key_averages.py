"""What PyTorch's profiler prints: `prof.key_averages().table()`, with whatever stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import import_sums, read_count, read_duration

IMPORTER = Importer(
    name="key_averages",
    label="PyTorch profiler, key_averages().table()",
    strong=(
        # vLLM prints it into its log, which has a reader of its own (torch_profiler_dump_cuda_...).
        rb"\A(?!.*?INFO \d\d-\d\d \d\d:\d\d:\d\d[^\n]{0,40}\[\w+\.py:\d+\])(?:.*?\n)?"
        rb"[ \t]*-{8,}  -{8,}[- ]*\r?\n[^\n]*\bName  [^\n]*Self CPU[^\n]*# of Calls",
    ),
    weak=(),
    looks_like="a table with Name, Self CPU, CPU total, # of Calls between lines of dashes",
    suffixes=(".txt", ".log", ".out"),
    version=3,
    source="https://pytorch.org/docs/stable/autograd.html#torch.autograd.profiler.profile",
)

_RULE = re.compile(r"^\s*-{8,}(?:  -{8,})+\s*$")
_BEYOND = 8  # characters
_DEVICE = re.compile(r"^Self (?!CPU)([A-Z]\w*)$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables of the file. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    lost: list[str] = []
    rows = list(_list_rows(read_text(source, notes).splitlines(), lost))
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="its table has no row")
    notes += note_bad_lines(len(lost), "row of the table")
    return import_sums(rows, "PyTorch profiler", notes)


def _list_rows(lines: list[str], lost: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of all tables; what is no row, and ends that are missing, are added to the lost."""
    columns: list[tuple[int, int]] = []
    names: list[str] = []
    for number, line in enumerate(lines):
        if _RULE.match(line):
            is_head = number + 2 < len(lines) and _RULE.match(lines[number + 2])
            if is_head:
                columns = [match.span() for match in re.finditer(r"-+", line)]
                names = _name_columns(lines[number + 1], columns)
            elif not number or not names or lines[number - 1].split()[:1] != ["Name"]:
                columns = []  # the table's end
            continue
        if not columns or "Name" not in names or "Self CPU" not in names:
            continue
        cells = dict(zip(names, _cut(line, columns), strict=True))
        if cells == dict(zip(names, names, strict=True)):
            continue
        rows = list(_describe(cells))
        # Columns are wider than what stands in them: a line that is longer is two.
        if not rows or len(line.rstrip()) > columns[-1][1] + _BEYOND:
            lost.append(line)
        yield from rows
    if columns:
        lost.append("the rule below the last row")


def _cut(line: str, columns: list[tuple[int, int]]) -> list[str]:
    return [line[begin:end].strip() for begin, end in columns]


def _name_columns(head: str, columns: list[tuple[int, int]]) -> list[str]:
    """The columns' names; one that is wider than its column (CUDA time avg) shifts all others."""
    names = re.split(r"\s{2,}", head.strip())
    return names if len(names) == len(columns) else _cut(head, columns)


def _describe(cells: dict[str, str]) -> Iterator[dict[str, Any]]:
    """A row's time on the host without what it calls, and on its device."""
    calls = read_count(cells.get("# of Calls", ""))
    name = replace_surrogates(cells["Name"])
    if not name or calls is None:
        return
    own = read_duration(cells["Self CPU"])
    if own is not None:
        yield {"kind": "host", "layer": "op", "name": name, "calls": calls, "duration_ns": own}
    for column, text in cells.items():
        if _DEVICE.match(column) and (ns := read_duration(text)):
            yield {"kind": "device", "name": name, "calls": calls, "duration_ns": ns}
