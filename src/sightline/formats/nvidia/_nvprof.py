"""nvprof's traces, printed or as CSV: rows of operations and calls into tables."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Quality
from sightline.core.units import INT64_MAX
from sightline.formats.nvidia._cells import scale_figure

# A row by its columns: each cell with its unit.
Row = dict[str, tuple[str, str]]

TIMES = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
# nvprof counts in units of 1024 (its memory of 1 KB is that of a page).
SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_DEVICE = re.compile(r"^(.{0,200}?) \((\d{1,4})\)$")
_COPY = re.compile(r"^\[CUDA memcpy (\w{4})\]")
_PAGES = re.compile(r"^\[Unified Memory [Mm]emcpy (\w{4})\]")
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


def note_no_host() -> Quality:
    """The note on a trace that holds no calls."""
    text = "nvprof's trace of the GPU alone: what the host did is not in it"
    return Quality("no_host", "info", text, None, "Record again:  sightline run -- COMMAND")


def read_row(row: Row, devices: dict[int, str]) -> dict[str, Any] | None:
    """One operation or call, with `on_device`: None of what is neither; None without a time."""
    start, length = (_scale(row.get(key), TIMES) for key in ("Start", "Duration"))
    name = row.get("Name", ("", ""))[0]
    if start is None or length is None or not name or start + length > INT64_MAX:
        return None
    place = {"start_ns": start, "end_ns": start + length}
    own = {"correlation_id": _count(row.get("Correlation_ID"))}
    device = row.get("Device", ("", ""))[0]
    if not device:
        layer = "runtime" if name.startswith("cuda") else "driver"
        return {"on_device": False, **place, **own, "layer": layer, "name": name}
    if name.startswith("[Unified Memory") and "emcpy" not in name:
        return {"on_device": None}  # faults, whose time is in that of the kernels
    # What is printed cuts a long name off, and the device's number with it.
    numbered = _DEVICE.match(device)
    number = 0 if numbered is None else int(numbered[2])
    devices.setdefault(number, device if numbered is None else numbered[1])
    copy, page = _COPY.match(name), _PAGES.match(name)
    kind = "memcpy" if copy or page else "memset" if name.startswith("[CUDA memset") else "kernel"
    return {
        "on_device": True,
        **place,
        **own,
        "kind": kind,
        "name": _NUMBERED.sub("", name),
        "device_id": number,
        "context_id": _count(row.get("Context")),
        "stream_id": _count(row.get("Stream")),
        "bytes": _scale(row.get("Unified Memory" if page else "Size"), SIZES),
        "static_shared_bytes": _scale(row.get("Static SMem"), SIZES),
        "dynamic_shared_bytes": _scale(row.get("Dynamic SMem"), SIZES),
        "copy_kind": copy[1] if copy else f"UVM {page[1]}" if page else None,
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


def make_tables(
    ops: list[dict[str, Any]], calls: list[dict[str, Any]], devices: dict[int, str]
) -> dict[str, pl.DataFrame]:
    """The tables of all operations and calls; who launched what by their correlation."""
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
