"""nvprof's traces as CSV: `nvprof --csv --print-gpu-trace`, `--print-api-trace`, or both at once.

A file has lines of nvprof's own that begin with '=', a line of columns, one of their units (the
unit of a time is chosen for each file: s, ms, us or ns), and a row for each operation or call.
Times count from the first one. NVIDIA, Profiler User's Guide (CUDA 12), "nvprof", Output.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.nvidia._cells import scale_figure

IMPORTER = Importer(
    name="nvprof_csv",
    label="nvprof GPU and API traces (CSV)",
    strong=(rb'(?:^|[\r\n])"Start","Duration",(?:"Grid X","Grid Y",|"Name")',),
    weak=(),
    looks_like='CSV with "Start","Duration","Grid X",... or "Start","Duration","Name"',
    suffixes=(".csv", ".log", ".txt"),
    version=2,
    source="https://docs.nvidia.com/cuda/archive/12.4.1/profiler-users-guide/#nvprof",
)

_TIMES = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
# nvprof counts in units of 1024 (its memory of 1 KB is that of a page).
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_DEVICE = re.compile(r"^(.{0,200}?) \((\d{1,4})\)$")
_COPY = re.compile(r"^\[CUDA memcpy (\w{4})\]")
_NUMBERED = re.compile(r" \[\d+\]$")  # a kernel's number in the trace, behind its name
_MEMORY = {"Pageable": "pageable", "Pinned": "pinned", "Device": "device", "Managed": "managed",
           "Array": "array"}  # fmt: skip
_SHAPE = {
    "Grid X": "grid_x", "Grid Y": "grid_y", "Grid Z": "grid_z",
    "Block X": "block_x", "Block Y": "block_y", "Block Z": "block_z",
    "Registers Per Thread": "registers_per_thread",
}  # fmt: skip
_INTEGERS = (
    "start_ns", "end_ns", "device_id", "context_id", "stream_id", "correlation_id", "bytes",
    "static_shared_bytes", "dynamic_shared_bytes", *_SHAPE.values(),
)  # fmt: skip
_OPS = dict.fromkeys(_INTEGERS, pl.Int64) | dict.fromkeys(
    ("kind", "name", "copy_kind", "src_kind", "dst_kind"), pl.String
)
_CALLS = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "layer": pl.String, "name": pl.String,
    "correlation_id": pl.Int64,
}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    ops: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    devices: dict[int, str] = {}
    bad = 0
    for row in _list_rows(read_text(source, quality)):
        made = None if row is None else _read_row(row, devices)
        if made is None:
            bad += 1
        elif made.pop("on_device"):
            ops.append(made)
        else:
            calls.append(made)
    if not ops and not calls:
        raise DamagedError(f"cannot read {source.given}", why="it holds no row of a trace")
    tables = _make_tables(ops, calls, devices)
    quality += note_bad_lines(bad, "row of nvprof's")
    if ops and not calls:
        text = "nvprof's trace of the GPU alone: what the host did is not in it"
        remedy = "Record again:  sightline run -- COMMAND"
        quality.append(Quality("no_host", "info", text, None, remedy))
    return Imported(tables, Recording("nvprof"), quality)


def _list_rows(text: str) -> Iterator[dict[str, tuple[str, str]] | None]:
    """Each row as column -> (cell, unit); None for one that is not whole."""
    header: list[str] = []
    units: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("="):
            continue
        try:
            cells = next(csv.reader([line]))
        except (csv.Error, StopIteration):
            yield None
            continue
        if cells[:2] == ["Start", "Duration"]:
            header, units = cells, []
        elif not header:
            continue  # what the program printed before
        elif not units:
            units = cells if cells[0] in _TIMES else []
            if not units:
                yield None
        elif len(cells) != len(header) or len(units) != len(header):
            yield None
        else:
            pairs = zip(cells, units, strict=True)
            yield dict(zip(header, pairs, strict=True))


def _read_row(row: dict[str, tuple[str, str]], devices: dict[int, str]) -> dict[str, Any] | None:
    """One operation or call; None where it has no time or name."""
    start, length = (_scale(row.get(key), _TIMES) for key in ("Start", "Duration"))
    name = row.get("Name", ("", ""))[0]
    if start is None or length is None or not name or start + length > INT64_MAX:
        return None
    place = {"start_ns": start, "end_ns": start + length}
    own = {"correlation_id": _count(row.get("Correlation_ID"))}
    device = _DEVICE.match(row.get("Device", ("", ""))[0])
    if device is None:
        layer = "runtime" if name.startswith("cuda") else "driver"
        return {"on_device": False, **place, **own, "layer": layer, "name": name}
    number = int(device[2])
    devices.setdefault(number, device[1])
    copy = _COPY.match(name)
    kind = "memcpy" if copy else "memset" if name.startswith("[CUDA memset") else "kernel"
    return {
        "on_device": True,
        **place,
        **own,
        "kind": kind,
        "name": _NUMBERED.sub("", name),
        "device_id": number,
        "context_id": _count(row.get("Context")),
        "stream_id": _count(row.get("Stream")),
        "bytes": _scale(row.get("Size"), _SIZES),
        "static_shared_bytes": _scale(row.get("Static SMem"), _SIZES),
        "dynamic_shared_bytes": _scale(row.get("Dynamic SMem"), _SIZES),
        "copy_kind": copy[1] if copy else None,
        "src_kind": _MEMORY.get(row.get("SrcMemType", ("", ""))[0]),
        "dst_kind": _MEMORY.get(row.get("DstMemType", ("", ""))[0]),
        **{ours: _count(row.get(theirs)) for theirs, ours in _SHAPE.items()},
    }


def _scale(cell: tuple[str, str] | None, units: dict[str, int]) -> int | None:
    """A figure in ns or bytes; null for none."""
    if cell is None or cell[1] not in units:
        return None
    return scale_figure(cell[0], units[cell[1]])


def _count(cell: tuple[str, str] | None) -> int | None:
    text = "" if cell is None else cell[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _make_tables(
    ops: list[dict[str, Any]], calls: list[dict[str, Any]], devices: dict[int, str]
) -> dict[str, pl.DataFrame]:
    tables = {}
    host = nest_ranges(
        pl.DataFrame(calls, schema=_CALLS).with_columns(
            pid=pl.lit(None, pl.Int64), tid=pl.lit(None, pl.Int64)
        )
    )
    if calls:
        tables["host_ops"] = host
    if ops:
        device = pl.DataFrame(ops, schema=_OPS).with_columns(
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64)
        )
        launches = host.select("correlation_id", launch_id="host_op_id").drop_nulls()
        tables["device_ops"] = device.join(
            launches.unique("correlation_id", keep="last", maintain_order=True),
            on="correlation_id",
            how="left",
            maintain_order="left",
        )
        tables["devices"] = pl.DataFrame(
            [{"device_id": n, "vendor": "nvidia", "name": name} for n, name in devices.items()],
            schema={"device_id": pl.Int64, "vendor": pl.String, "name": pl.String},
        )
    return tables
