"""nvprof's tables in a text: summaries and unified memory, by process and run.

NVIDIA, Profiler User's Guide (CUDA 12), "nvprof", Output: lines of its own begin with ==PID==, or
with ======== where a file is read (`nvprof -i`); a row's times carry their units.
"""

from __future__ import annotations

import re
from typing import Any

from sightline.core.text import replace_surrogates
from sightline.formats._pasted_lines import cut_cells, drop_marks, is_csv
from sightline.formats._summaries import COPY, FAULTS
from sightline.formats.nvidia._cells import scale_figure
from sightline.formats.nvidia._nvprof import read_row
from sightline.formats.nvidia.nvidia_text.counters import (
    COUNTED,
    KERNEL,
    ROW,
    UNCOUNTED,
    read_counter,
)
from sightline.formats.nvidia.nvidia_text.parts import Part, name_program
from sightline.formats.nvidia.nvidia_text.printed_trace import read_printed
from sightline.formats.nvidia.nvidia_text.scan import (
    COUNTERS,
    NVPROF,
    NVPROF_TRACE,
    UNIFIED,
    Found,
)
from sightline.formats.nvidia.nvidia_text.sum_tables import name_call, name_device_work

OWN = re.compile(r"==(\d{1,10}|={2,6})==\s?(.*)$|^\s*(={6,8}) (\w.*)$")
_HEADING = re.compile(r"^(?:(?:Profiling|Trace|Metric|Event) result|API calls|Open\w+ \(\w+\)):$")
_JOINED = re.compile(r"result:\S")  # the header below it
_COMMAND = re.compile(r"^NVPROF is profiling process \d+, command: (.*)$")
_TIME = r"([\d.]{1,20}(?:e[+-]?\d{1,2})?)(ns|us|µs|ms|s|m|h)"
_ROW = re.compile(
    rf"^\s*(?:([A-Z][\w ()]{{2,30}}):)?\s*[\d.]{{1,6}}%?\s+{_TIME}\s+(\d{{1,15}})"
    rf"\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(\S.*?)\s*$"
)
_BEGUN = re.compile(rf"^\s*(?:[A-Z][\w ()]{{2,30}}:)?\s*[\d.]{{1,6}}%\s+{_TIME}")
_TIMES = re.compile(rf"\s{_TIME}(?=\s|$)")
_FIGURE_CELL = re.compile(r"\d")
_TIMES_OF_ROW = 4
_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
       "h": 3600 * 10**9}  # fmt: skip
# nvprof counts in units of 1024 (its memory of 1 KB is that of a page).
_SIZE = re.compile(r"^([\d.]{1,20})(B|KB|MB|GB)$")
_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_NUMBER = re.compile(r"\((\d{1,4})\)$")
_DEVICE = re.compile(r'^Device "(.{1,200}?) \((\d{1,4})\)"')
_MIGRATIONS = {
    "Host To Device": "[CUDA Unified Memory memcpy HtoD]",
    "Device To Host": "[CUDA Unified Memory memcpy DtoH]",
    "Device To Device": "[CUDA Unified Memory memcpy DtoD]",
}
_UNIFIED_ROW = re.compile(
    r"^\s*(\d{1,15})\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+([A-Z][A-Za-z ]{2,60}?)\s*$"
)
_UNIFIED_BEGUN = re.compile(
    r"^\s*\d{1,15}(?:\s+(?:-|[\d.]+[KMG]?B?)){2,}|^\s*\d{1,15}\s+[\d.]+[KMG]?B\d"
    r"|^Total CPU [Pp]age [Ff]aults"
)
_FAULTS = re.compile(r"^Total CPU [Pp]age [Ff]aults: (\d{1,15})")
_RUNTIME = re.compile(r"^cuda[A-Z]\w*$")
_LAYERS = (("API", None), ("OpenACC", "openacc"), ("OpenMP", "openmp"))
_RANGE = "Range"
TOOL = "nvprof"
NOTHING = "no_kernels"
DENIED = "counters_denied"


class NvprofReader:
    """Takes a text's lines and tables in their order, and keeps each run's rows apart."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._device: int | None = None
        self._kernel: str | None = None
        self._section = ""  # the group that the rows which follow are of
        self._table: str | None = None
        self._csv: tuple[list[str], list[str]] | None = None
        self._pid: str | None = None
        self._header: list[str] = []
        self._in_ranges = False  # tables of ranges repeat what ran in them
        self.lost = 0  # lines that begin as a row does and are none

    def take_line(self, line: str) -> None:
        """A line that is not a header: one of nvprof's own, or a row of the table above it."""
        plain = drop_marks(line)
        bare = plain.strip()
        if (own := OWN.search(plain)) is not None:
            self._take_own(own[1] or own[3], (own[2] or own[4] or "").strip())
        elif _HEADING.match(bare):  # who pasted it took the process away
            self._take_own("", bare)
        elif (device := _DEVICE.match(bare)) is not None:
            self._device = int(device[2])
            self._keep_part().devices.setdefault(self._device, replace_surrogates(device[1]))
            self._kernel = (found := KERNEL.search(bare[device.end() :])) and found[1]
            self.lost += "  Avg Size  " in bare  # the header below it
        elif (kernel := KERNEL.match(plain)) is not None:
            self._kernel = kernel[1]
            self.lost += bool(COUNTED.search(kernel[1]))  # two lines in one
        elif bare.startswith("No kernels were profiled"):
            self._take_own(self._pid or "", bare)
        elif self._table is None:
            self.lost += bool(ROW.match(plain))  # a counter whose table has lost its header
        elif self._table == COUNTERS and UNCOUNTED.match(plain):
            self.lost += 1
        elif self._csv is not None:
            self._take_csv(plain)
        elif self._table == NVPROF and (row := _ROW.match(plain)) is not None:
            self.lost += len(_TIMES.findall(plain)) > _TIMES_OF_ROW  # two lines in one
            self._take_row(row)
        elif self._table == NVPROF and (_BEGUN.match(plain) or len(_TIMES.findall(plain)) >= 3):
            self.lost += 1
        elif self._table == NVPROF_TRACE:
            self._take_trace(plain)
        elif self._table == COUNTERS and (row := ROW.match(plain)) is not None:
            self.lost += len(COUNTED.findall(plain)) > 1  # two lines in one
            self._take_counter(row[2], row[1], row[5])
        elif self._table == COUNTERS and COUNTED.match(plain):
            self.lost += 1
        elif self._table == UNIFIED and (row := _UNIFIED_ROW.match(plain)) is not None:
            self._take_unified(row)
        elif self._table == UNIFIED and _UNIFIED_BEGUN.match(plain) and not _FAULTS.match(bare):
            self.lost += 1
        elif self._table == UNIFIED and (faults := _FAULTS.match(bare)) is not None:
            name = "[Unified Memory CPU page faults]"
            self._add({"kind": "host", "layer": "os", "name": name, "calls": int(faults[1])})

    def take_table(self, table: Found) -> None:
        """A header: what the rows that follow are."""
        key = (self._pid, table.kind, self._section, *table.header)
        part = self._keep_part()
        if key in part.had and not self._in_ranges:
            part = self._start_part()
        part.had.add(key)
        self.lost += any(_FIGURE_CELL.match(cell) for cell in table.header)  # a row behind it
        self._table = table.kind
        self._header = table.header
        self._csv = (table.header, []) if table.is_csv else None

    def _take_own(self, pid: str, words: str) -> None:
        command = _COMMAND.match(words)
        if command is not None:
            part = self._keep_part()
            if any(kind == "result" for _, kind in part.pids):
                part = self._start_part()
            part.pids.add((pid, "process"))
            part.command = part.command or name_program(command[1])
        elif "result:" in words or words.startswith(("API calls", "OpenACC", "OpenMP")):
            self._pid, self._table, self._csv = pid, None, None
            self.lost += bool(_JOINED.search(words))
            self._in_ranges = words.startswith("NVTX result")
            is_result = "result:" in words
            self._section = "" if is_result else words.rstrip(":")
            if words.startswith("Profiling result"):
                self._take_result(pid)
        elif "No kernels were profiled" in words and not self._in_ranges:
            self._keep_part().notes.add(NOTHING)
        elif "ERR_NVGPUCTRPERM" in words:
            self._keep_part().notes.add(DENIED)

    def _take_result(self, pid: str) -> None:
        """A result begins: of another run, unless its process was announced beside others."""
        part = self._keep_part()
        others = {who for who, kind in part.pids if kind == "result"}
        if others and (pid in others or (pid, "process") not in part.pids):
            part = self._start_part()
        part.pids.add((pid, "result"))

    def _keep_part(self) -> Part:
        """The run that is being read; another one, where the last is another tool's."""
        if self.parts and self.parts[-1].tool == TOOL:
            return self.parts[-1]
        return self._start_part()

    def _start_part(self) -> Part:
        self.parts.append(Part(TOOL))
        return self.parts[-1]

    def _take_row(self, row: re.Match[str]) -> None:
        if row[1]:
            self._section = row[1]
        if self._in_ranges and self._section != _RANGE:
            return
        times = [_scale_time(*row.group(a, b)) for a, b in ((2, 3), (5, 6), (7, 8), (9, 10))]
        total, _, least, most = times
        if total is not None:
            self._add(_describe(self._section, row[11], int(row[4]), total, least, most))

    def _take_counter(self, metric: str, launches: str, mean: str) -> None:
        row = read_counter(self._kernel or "", self._device, metric, launches, mean)
        if row is not None and row["kernel"]:
            self._keep_part().counters.append(row)
        elif row is not None:
            self.lost += 1  # whose kernel's line is damaged

    def _take_trace(self, line: str) -> None:
        row = read_printed(self._header, line)
        part = self._keep_part()
        made = None if row is None else read_row(row, part.devices)
        if made is not None and (on_device := made.pop("on_device")) is not None:
            (part.ops if on_device else part.calls).append(made)

    def _take_csv(self, line: str) -> None:
        header, units = self._csv or ([], [])
        cells = cut_cells(line) if is_csv(line.strip()) else []
        if not cells:
            return
        if self._table == COUNTERS:
            self._take_counter_cells(dict(zip(header, cells, strict=False)))
            return
        # A name without quotation marks holds commas of its own.
        last = len(header) - 1
        cells = [*cells[:last], ", ".join(cells[last:])]
        if not units and "Time" in header:
            time = cells[header.index("Time")] if header.index("Time") < len(cells) else ""
            if not re.fullmatch(_TIME, time):
                self._csv = (header, cells)
                return
            figures = [re.fullmatch(_TIME, cell) for cell in cells]  # each with its unit
            cells = [f[1] if f else cell for f, cell in zip(figures, cells, strict=True)]
            units = [f[2] if f else "" for f in figures]
        by_name = dict(zip(header, zip(cells, units, strict=False), strict=False))
        name = by_name.get("Name", ("", ""))[0]
        calls = by_name.get("Calls", ("", ""))[0]
        total, least, most = (
            _scale_time(*by_name.get(column, ("", ""))) for column in ("Time", "Min", "Max")
        )
        if total is not None and name and calls.isascii() and calls.isdigit():
            section = by_name.get("Type", (self._section, ""))[0]
            self._add(_describe(section, name, int(calls[:15]), total, least, most))

    def _take_counter_cells(self, cells: dict[str, str]) -> None:
        device = _NUMBER.search(cells.get("Device", ""))
        self._device = None if device is None else int(device[1])
        self._kernel = cells.get("Kernel") or None
        metric = cells.get("Metric Name") or cells.get("Event Name") or ""
        launches = cells.get("Invocations", "")
        if metric and launches.isascii() and launches.isdigit():
            self._take_counter(metric, launches[:15], cells.get("Avg", ""))

    def _take_unified(self, row: re.Match[str]) -> None:
        what = row[7]
        size, time = _SIZE.match(row[5]), re.fullmatch(_TIME, row[6])
        ns = None if time is None else _scale_time(time[1], time[2])
        size_bytes = None if size is None else scale_figure(size[1], _BYTES[size[2]])
        is_move = what in _MIGRATIONS
        name = _MIGRATIONS.get(what, f"[Unified Memory {what}]")
        self._add(
            {
                "kind": "device" if ns is not None else "traffic",
                "category": COPY if is_move else FAULTS,
                "name": name,
                "calls": int(row[1]),
                "duration_ns": ns,
                "bytes": size_bytes,
            }
        )

    def _add(self, row: dict[str, Any]) -> None:
        pid = self._pid
        known = None if pid is None or not pid.isdigit() else int(pid)
        self._keep_part().sums.append({"duration_ns": None, **row, "pid": known})


def _describe(
    section: str, name: str, calls: int, total: int, least: int | None, most: int | None
) -> dict[str, Any]:
    """A row of `call_sums`."""
    name = replace_surrogates(name)
    # Without any heading, the name is all there is.
    if section.startswith("GPU") or (not section and not _RUNTIME.match(name)):
        place = name_device_work(name)
    else:
        place = name_call(name)
        named = next((layer for word, layer in _LAYERS if section.startswith(word)), None)
        if named is not None:
            place = {"kind": "host", "layer": named}
        elif section == _RANGE:
            place = {"kind": "host", "layer": "nvtx"}
    return {
        **place,
        "name": name,
        "calls": calls,
        "duration_ns": total,
        "shortest_duration_ns": least,
        "longest_duration_ns": most,
    }


def _scale_time(figure: str, unit: str) -> int | None:
    return scale_figure(figure, _NS[unit]) if unit in _NS else None
