"""nsys' tables in a text: whose run each is of, and its rows."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from sightline.formats.nvidia._nsys_trace import make_table
from sightline.formats.nvidia.nvidia_text.parts import Part, name_program
from sightline.formats.nvidia.nvidia_text.scan import SIZES, TOTALS, TRACE, Found
from sightline.formats.nvidia.nvidia_text.sum_tables import list_faults, list_rows, read_header

# What stands above a table: the script's number and name, or a title.
_EXECUTING = re.compile(r"\[(\d{1,3})/\d{1,3}\] Executing '(\w{1,60})' stats report")
_TITLE = re.compile(
    r"\*\* (.{3,80}) \((\w{3,60})(?::[\w=:]{0,60})?\):\s*$"
    r"|^\W{0,8}([A-Z][\w ]{3,60} (?:Statistics|Summary)\b.{0,60})$"
)
_SCRIPT = re.compile(r"/reports/(\w{3,60})\.py\b")
_NEW_RUN = re.compile(r"^\W{0,8}Generating '\S*nsys-report|^\s*Collecting data\.\.\.")
_COMMAND = re.compile(r"(?:^|[\s$#>])nsys(?:\.exe)? (?:profile|nvprof)\s(.{1,2000})$")
TOOL = "nsys stats"
# The order of reports until 2022: what comes before the last is of another run.
_ROW_WITHIN = re.compile(r"\S {2,}[\d.]+ {2,}[\d,.]+ {2,}[\d,.]+ {2,}")  # two lines in one
_ORDER = ("api", "kern", "time", "size", "osrt", "nvtx")


class NsysReader:
    """Takes a text's lines and tables in their order, and keeps each run's rows apart."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.lost = 0  # rows of tables that are none
        self._title = ""
        self._number: int | None = None
        self._last: int | None = None
        self._fresh = False
        self._command: str | None = None

    def take_line(self, line: str) -> None:
        """A line of no table: a title, or where another run begins."""
        if found := _EXECUTING.search(line):
            self._number, self._title = int(found[1]), found[2]
        elif found := _TITLE.search(line):
            title = found[3] or f"{found[1]} {found[2]}"
            self._title = title if found[3] or not self._title else f"{self._title} {title}"
        elif found := _SCRIPT.search(line):
            self._title = found[1]
        elif _NEW_RUN.search(line):
            self._fresh = True
        if (found := _COMMAND.search(line)) is not None:
            self._command, self._fresh = _find_program(found[1]), True

    def take_table(self, table: Found) -> None:
        """A table's rows, into the run that it is of."""
        title = self._title
        if table.kind == TRACE:
            self._take_trace(table)
            return
        header = read_header(table.header)
        is_total = table.kind == TOTALS
        rows = list((list_faults if is_total else partial(list_rows, title))(header, table.rows))
        if not is_total and header.find("Total Time", "Total") is not None:
            self.lost += len(table.rows) - len(rows)
            self.lost += sum(bool(_ROW_WITHIN.search(cell)) for row in table.rows for cell in row)
        key = _name_table(table, rows)
        if not rows:
            return
        part = self._choose_part(key)
        part.had.add(key)
        part.sums += rows
        self._title, self._number, self._fresh = "", None, False

    def _take_trace(self, table: Found) -> None:
        columns = make_table(table.header, table.rows)
        part = self._choose_part(("trace", *sorted(columns.places)))
        part.had.add(("trace", *sorted(columns.places)))
        part.traces.add(columns)
        self._title, self._number, self._fresh = "", None, False

    def _choose_part(self, key: tuple[Any, ...]) -> Part:
        """The run that a table is of: another one where it had one, or the count begins."""
        is_ours = bool(self.parts) and self.parts[-1].tool == TOOL
        is_new = not is_ours or self._fresh or key in self.parts[-1].had
        if self._number is not None:
            is_new = is_new or (self._last is not None and self._number <= self._last)
        elif is_ours and self._last is None and key[0] in _ORDER:
            before = [_ORDER.index(k[0]) for k in self.parts[-1].had if k[0] in _ORDER]
            is_old = "Statistics" in self._title
            is_new = is_new or (is_old and bool(before) and _ORDER.index(key[0]) < max(before))
        self._last = self._number
        if is_new:
            self.parts.append(Part(TOOL, self._command))
            self._command = None
        return self.parts[-1]


def _name_table(table: Found, rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    """What a table is, so that a second one of the same kind is of another run."""
    if not rows:
        return ("none",)
    if table.kind in (SIZES, TOTALS):
        return ("size",) if table.kind == SIZES else ("unified memory",)
    first = rows[0]
    if first["kind"] == "device":
        has_kernels = any(row.get("category") == "kernel" for row in rows)
        return ("kern",) if has_kernels else ("time",)
    layers = {row.get("layer") for row in rows}
    if layers <= {"runtime", "driver"} or "runtime" in layers:
        return ("api",)
    names = {"os": "osrt", "annotation": "nvtx"}
    return (names.get(str(first.get("layer")), first.get("layer")), *table.header[2:3])


def _find_program(words: str) -> str | None:
    """The program that nsys is given, behind its options; None where that is not plain."""
    rest = words.split(" -- ", 1)[-1].split()
    takes = {"-o", "-t", "-s", "-c", "-b", "-f", "-d", "-y", "-w", "-x", "-e", "-n", "-p"}
    skip = False
    for word in rest:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in takes
        elif "=" not in word:
            return name_program(word)
    return None
