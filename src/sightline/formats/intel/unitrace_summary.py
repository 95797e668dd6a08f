"""What Intel's unitrace, onetrace and ze_tracer print at a program's end: sums by name.

Format: intel/pti-gpu, tools/unitrace (README: --host-timing, --device-timing, --kernel-submission)
and, before it, onetrace, ze_tracer and cl_tracer. Tables of calls and of a device's work for each
backend (Level Zero, OpenCL), with the backend's total above; of each kernel how it was built
(Kernel Properties). Names hold commas and, with --verbose, the kernel's shape or the copy's bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import format_ns
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import (
    COPY,
    FILL,
    KERNEL,
    import_sums,
    note_several,
    read_count,
)
from sightline.formats.intel._unitrace import describe_entry, is_waiting

IMPORTER = Importer(
    name="unitrace_summary",
    label="Intel unitrace summary (text)",
    strong=(
        rb"(?:\A|\n)=== (?:API Timing|Device Timing|Kernel Submission) (?:Summary|Results:) ==="
        rb"\r?\n\s{0,80}(?:Total Exec|Total [A-Z]|== |Kernel, ?|Function, ?)",
    ),
    weak=(),
    looks_like="headings such as === Device Timing Summary === above tables of kernels and calls",
    suffixes=(".txt", ".log"),
    version=1,
    in_logs=(b"=== Device Timing ", b"=== API Timing ", b"=== Kernel Submission "),
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
)

HOST, DEVICE, SUBMISSION, PROPERTIES = "host", "device", "submission", "properties"
_HEADING = re.compile(r"^=== (.{1,80}?):? ===$")
_BACKEND = re.compile(r"^== (.{1,40}?) Backend:? ==$")
_PROGRAM = "Execution"
_TOTAL = re.compile(
    r"^Total (API|Device|Execution) Time(?: for (.{1,40}?)(?: backend)?)? \(ns\): *(\S*)$"
)
_TOTALS = {"API": HOST, "Device": DEVICE, _PROGRAM: _PROGRAM}
_TABLES = {HOST: "the table of calls", DEVICE: "the table of device work"}
_APIS = {"L0": "ze", "CL GPU": "opencl", "CL CPU": "opencl", "GPU": "opencl", "CPU": "opencl"}
_NAMES = ("Function", "Kernel")
_TIMES = {"Time (ns)": "duration_ns", "Min (ns)": "shortest_duration_ns",
          "Max (ns)": "longest_duration_ns"}  # fmt: skip
_BUILT = {
    "Register File Size Per Thread": "registers_per_thread",
    "SLM Per Work Group": "shared_bytes",
    "Private Memory Per Thread": "private_bytes_per_thread",
    "Spill Memory Per Thread": "spilled_bytes_per_thread",
    "SIMD": "simd_width",
}
_KINDS = {"kernel": KERNEL, "memcpy": COPY, "memset": FILL}


@dataclass
class _Part:
    """One run of the tool: its rows, the totals that it states, and how its kernels were built."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[tuple[str, str], int | None] = field(default_factory=dict)
    built: dict[str, dict[str, Any]] = field(default_factory=dict)
    submitted: list[dict[str, Any]] = field(default_factory=list)
    headings: set[str] = field(default_factory=set)
    program_ns: int | None = None


@dataclass(frozen=True)
class _Line:
    """A row of a table: what the table is, its backend, and the cells by their column."""

    kind: str
    backend: str
    cells: dict[str, str]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    parts, bad = _read_parts(read_text(source, notes))
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        notes += _note_totals(part)
        works = part.rows if any(r["kind"] == DEVICE for r in part.rows) else part.submitted
        mine = part.rows if works is part.rows else [*part.rows, *part.submitted]
        at = number if len(parts) > 1 else None
        rows += [{**row, **part.built.get(row["key"], {}), "part": at} for row in mine]
    if not rows:
        why = "no table of it has a row with a name, calls and a time"
        raise DamagedError(f"cannot read {source.given}", why=why)
    for row in rows:
        del row["key"], row["backend"]
    notes += note_bad_lines(bad, "row of unitrace's summary")
    if any(part.submitted for part in parts):
        text = "how long kernels waited between append, submission and start is not read"
        notes.append(Quality("submission_times_left_out", "info", text))
    notes += note_several(len(parts))
    imported = import_sums(rows, "unitrace", notes)
    if len(parts) == 1 and parts[0].program_ns:
        imported.recording = replace(imported.recording, start_ns=0, end_ns=parts[0].program_ns)
    return imported


def _read_parts(text: str) -> tuple[list[_Part], int]:
    """The runs of the tool whose sums stand in a text, and how many lines of tables are damaged."""
    parts = [_Part()]
    bad = 0
    for line in _list_lines(text):
        part = parts[-1]
        if isinstance(line, str):
            if line in part.headings:
                parts.append(part := _Part())
            part.headings.add(line)
        elif isinstance(line, tuple):
            if line[0] == _PROGRAM:
                part.program_ns = line[2]
            else:
                part.totals[line[:2]] = line[2]
        elif line is None:
            bad += 1
        elif line.kind == PROPERTIES:
            part.built[line.cells["Kernel"]] = _describe_build(line.cells)
        else:
            row = _describe(line)
            if row is None:
                bad += 1
            else:
                (part.submitted if line.kind == SUBMISSION else part.rows).append(row)
    return [part for part in parts if part.headings or part.rows or part.submitted], bad


def _list_lines(text: str) -> Iterator[str | tuple[str, str, int | None] | _Line | None]:
    """Headings, totals (kind, backend, ns) and rows of a text; None for a damaged line."""
    backend, names = "", list[str]()
    is_waiting_for_names = False
    for line in map(str.strip, text.splitlines()):
        if not line:
            names = names if is_waiting_for_names else []
        elif found := _HEADING.match(line):
            backend, names = "", []
            yield found[1]
        elif found := _BACKEND.match(line):
            if is_waiting_for_names:
                yield None  # the backend above has no table
            backend, names, is_waiting_for_names = found[1], [], True
        elif found := _TOTAL.match(line):
            yield _TOTALS[found[1]], found[2] or "", read_count(found[3])
        elif line.startswith(tuple(f"{name}," for name in _NAMES)):
            names = [name.strip() for name in line.split(",")]
            is_waiting_for_names = False
            if _name_table(names) is None:
                yield None
        elif names:
            cells = [cell.strip() for cell in line.rsplit(",", len(names) - 1)]
            table = _name_table(names)
            if len(cells) != len(names) or table is None:
                yield None
            else:
                cells[0] = cells[0].strip('"')
                yield _Line(table, backend, dict(zip(names, cells, strict=True)))
        elif is_waiting_for_names:
            is_waiting_for_names = False
            yield None  # the names of its columns are damaged
    if is_waiting_for_names:
        yield None


def _name_table(names: list[str]) -> str | None:
    """What a table is, by the names of its columns."""
    if "Compiled" in names or "Spill Memory Per Thread" in names:
        return PROPERTIES
    if "Calls" not in names:
        return None
    if "Execute (ns)" in names:
        return SUBMISSION
    if "Time (ns)" not in names:
        return None
    return HOST if names[0] == "Function" else DEVICE


def _describe(line: _Line) -> dict[str, Any] | None:
    """A row of `call_sums`; None where it has no name, calls or time."""
    cells = line.cells
    name = replace_surrogates(cells[_NAMES[line.kind != HOST]])
    calls = read_count(cells["Calls"])
    if line.kind == SUBMISSION:
        times = {"duration_ns": read_count(cells["Execute (ns)"])}
    else:
        times = {ours: read_count(cells.get(theirs, "")) for theirs, ours in _TIMES.items()}
    if not name or calls is None or times["duration_ns"] is None:
        return None
    row = {"key": name, "backend": line.backend, "name": name, "calls": calls, **times}
    if line.kind == HOST:
        api = _APIS.get(line.backend, "ze" if name.startswith("ze") else "opencl")
        return {**row, "kind": HOST, "layer": "driver", "category": api}
    row |= {"kind": DEVICE, "simd_width": read_count(cells.get("SIMD", "")) or None}
    if is_waiting(name):
        return row
    said = describe_entry(name)
    row["category"] = _KINDS[said["kind"]]
    if said["kind"] == "kernel":
        return row  # with its shape, by which the tool tells launches of one kernel apart
    moved = read_count(next((v for k, v in cells.items() if k.endswith("(bytes)")), ""))
    if moved is None and said.get("bytes") is not None:
        moved = said["bytes"] * calls
    return {**row, "name": said["name"], "bytes": moved}


def _describe_build(cells: dict[str, str]) -> dict[str, Any]:
    """How a kernel was built; what the tool did not know ("unknown", "ANY") is left out."""
    known = {ours: read_count(cells.get(theirs, "")) for theirs, ours in _BUILT.items()}
    built = {"built": cells["Compiled"]} if cells.get("Compiled") in ("JIT", "AOT") else {}
    return {**built, **{name: value for name, value in known.items() if value is not None}}


def _note_totals(part: _Part) -> Iterator[Quality]:
    """What to say of stated totals that are not the sum of their rows: some of these are gone."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in part.rows:
        for backend in (row["backend"], ""):  # the older tools state one total for all backends
            sums[row["kind"], backend] += row["duration_ns"]
    for (kind, backend), total in part.totals.items():
        if (kind == DEVICE and part.submitted and not sums[kind, ""]) or (
            total == sums[kind, backend]
        ):
            continue
        where = f" of the {backend} backend" if backend else ""
        if total is None:
            text = f"the total of {_TABLES[kind]}{where} cannot be read"
        else:
            apart = sums[kind, backend] - total
            text = (
                f"{_TABLES[kind]}{where} states {format_ns(total)}, and its rows add up to "
                f"{format_ns(abs(apart))} {'less' if apart < 0 else 'more'}: rows are missing, or "
                "changed"
            )
        yield Quality("totals_differ", "warning", text, None, "Take the tool's own file again.")
