"""What THAPI's iprof prints: calls of each API, device work and traffic, added up by name.

A heading for each group (`BACKEND_ZE | 1 Hostnames | ...`, `Device profiling | ...`, `Explicit
memory traffic (BACKEND_ZE) | ...`), below it a table; names too long were cut by iprof with [...].
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import COPY, FILL, KERNEL, import_sums, read_count, read_duration

IMPORTER = Importer(
    name="thapi_tally",
    label="THAPI iprof, tally (text)",
    strong=(
        rb"(?:\A|\n)(?:BACKEND_[A-Z][A-Z_,]{1,80}|Device profiling"
        rb"|Explicit memory traffic[^|\n]{0,80}) \| \d{1,9} Hostnames \| \d{1,9} Processes \| ",
    ),
    weak=(),
    looks_like="headings such as BACKEND_ZE | 1 Hostnames | 1 Processes | 1 Threads |",
    suffixes=(".txt", ".log", ".out"),
    version=4,
    source="https://github.com/argonne-lcf/THAPI",
)

_HEADING = re.compile(
    r"^(BACKEND_[A-Z_,]+|Device profiling|Explicit memory traffic(?: \(([A-Z_,]+)\))?)"
    r" \| .*\|\s*$"
)
_HEAD = re.compile(r"^\s*Name \|(?: *[A-Z][\w()%]* *(?:\([^|]*\) *)?\|){3,}\s*$")
# Layer and API of a backend, as of the events that it is made of (ctf/mappings/user_space.yaml).
_BACKENDS = {
    "BACKEND_ZE": ("driver", "ze"), "BACKEND_OPENCL": ("driver", "opencl"),
    "BACKEND_CUDA": ("driver", "cuda"), "BACKEND_HIP": ("runtime", "hip"),
    "BACKEND_OMP": ("openmp", "ompt"), "BACKEND_OMP_TARGET_OPERATIONS": ("openmp", "ompt"),
    "BACKEND_MPI": ("mpi", "mpi"), "BACKEND_CXI": ("library", "cxi"),
    "BACKEND_ITT": ("annotation", "itt"), "BACKEND_PYTORCH": ("op", "pytorch"),
}  # fmt: skip
_SIZE = re.compile(r"^([\d.]{1,24})([kMGTP]?)B$")
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SHORT = "[...]"
# What the rows of device work are that are no kernels: by the call that asked for them.
_COPIES = re.compile(r"(?i)memcpy|MemoryCopy|^clEnqueue\w*(?:Copy|Read|Write|Migrate|Map|Unmap)")
_FILLS = re.compile(r"(?i)memset|MemoryFill|^clEnqueue\w*Fill")
_WAITS = re.compile(r"Barrier|Marker|WaitOnEvents|SignalEvent|EventReset")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    rows: list[dict[str, Any]] = []
    bad = 0
    for kind, backend, cells in _list_rows(read_text(source, notes)):
        if not cells:  # a line between the rows of a table
            bad += 1
            continue
        row = _describe(kind, backend, cells)
        if row is None:
            bad += 1
        else:
            rows.append(row)
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="no table of it has a row")
    notes += note_bad_lines(bad, "rows of iprof")
    cut = sum(_SHORT in row["name"] for row in rows)
    if cut:
        notes.append(Quality("names_cut", "info", "names are cut by iprof ([...])", cut))
    text = "iprof prints three digits of each time and size: sums of them are off by up to 0.5 %"
    notes.append(Quality("rounded_times", "info", text))
    return import_sums(rows, "THAPI iprof", notes)


def _list_rows(text: str) -> Iterator[tuple[str, str | None, dict[str, str]]]:
    """Kind, backend and cells of each row that is not a sum of the others."""
    kind, backend, names = "", None, list[str]()
    calls, is_headless = 0, False  # whether a heading's table has not begun
    for line in text.splitlines():
        if is_headless and line.strip() and line.split()[0] != "Name":
            yield kind, backend, {}
        is_headless &= not line.strip()
        if (found := _HEADING.match(line)) is not None:
            kind = {"B": "host", "D": "device", "E": "traffic"}[found[1][0]]
            backend = found[2] or (found[1] if kind == "host" else None)
            names, calls, is_headless = [], 0, True
        elif kind and line.count("|") >= 3:
            cells = [cell.strip() for cell in line.rstrip().removesuffix("|").split("|")]
            if cells[0] == "Name":
                names = cells
                if "Calls" not in cells:  # a header that is cut
                    yield kind, backend, {}
            elif names and cells[0] != "Total":
                # A name may hold the sign that stands between columns; short rows leave Error out.
                extra = max(len(cells) - len(names), 0)
                name = "|".join(cells[: extra + 1])
                row = dict(zip(names, [name, *cells[extra + 1 :]], strict=False))
                calls += read_count(row.get("Calls", "")) or 0
                yield kind, backend, row
            if cells[0] == "Total":  # a table's last row, which says how many calls it has
                total = dict(zip(names, cells, strict=False)).get("Calls", "")
                names = []
                if read_count(total) != calls:
                    yield kind, backend, {}
            elif not names:
                yield kind, backend, {}
        elif kind and not names and line.lstrip().startswith("Name |"):
            yield kind, backend, {}  # a header that is cut
        elif not kind and _HEAD.match(line):
            yield kind, backend, {}  # a table whose heading is damaged
        elif line.strip():
            if kind and names:
                yield kind, backend, {}
            else:
                kind = ""  # what the program itself printed
        elif names:
            names = []
            yield kind, backend, {}  # it has no last row


def _describe(kind: str, backend: str | None, cells: dict[str, str]) -> dict[str, Any] | None:
    calls = read_count(cells.get("Calls", ""))
    layer, api = _name_api(backend) if backend else (None, None)
    row: dict[str, Any] = {
        "kind": kind,
        "layer": layer if kind == "host" else None,
        "category": _name_work(cells["Name"]) if kind == "device" else api,
        "name": replace_surrogates(cells["Name"]),
        "calls": calls,
        "errors": read_count(cells.get("Error", "")),
    }
    if kind == "traffic":
        row["bytes"] = measured = _read_size(cells.get("Byte", ""))
    else:
        row["duration_ns"] = measured = read_duration(cells.get("Time", ""))
        row["shortest_duration_ns"] = read_duration(cells.get("Min", ""))
        row["longest_duration_ns"] = read_duration(cells.get("Max", ""))
    return None if calls is None or measured is None or not row["name"] else row


def _name_work(name: str) -> str | None:
    """What kind of device work it is; None for what only waits."""
    if _COPIES.search(name):
        return COPY
    if _FILLS.search(name):
        return FILL
    return None if _WAITS.search(name) else KERNEL


def _name_api(backend: str) -> tuple[str, str]:
    """Layer and API; several backends share a table where one calls the other."""
    known = [_BACKENDS[one] for one in backend.split(",") if one in _BACKENDS]
    if known and all(one in _BACKENDS for one in backend.split(",")):
        return known[0][0], ",".join(api for _, api in known)
    return "annotation", backend.replace("BACKEND_", "").lower()


def _read_size(text: str) -> int | None:
    found = _SIZE.match(text)
    try:
        return None if found is None else round(float(found[1]) * _SCALES[found[2]])
    except ValueError:
        return None
