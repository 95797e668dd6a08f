"""Rows of nsys' traces, printed or as CSV, into tables of operations and calls."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.formats.nvidia._cells import scale_figure

_NS = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9,
       "sec": 10**9}  # fmt: skip
_BYTES = {"b": 1, "byte": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10,
          "mib": 1 << 20, "gib": 1 << 30}  # fmt: skip
_NUMBER = re.compile(r"^[\d.]{1,24}$")
_COPY = re.compile(r"^\[CUDA (?:Unified Memory )?memcpy ([^\]]+)\]$")
_WAYS = {
    "host-to-device": "HtoD", "device-to-host": "DtoH", "device-to-device": "DtoD",
    "peer-to-peer": "PtoP", "host-to-host": "HtoH",
}  # fmt: skip
_DEVICE = re.compile(r"^(.*?)\s*\((\d{1,4})\)$")
_SHAPE = {
    f"{what}_{axis.lower()}": f"{short}{axis}"
    for what, short in (("grid", "Grd"), ("block", "Blk"))
    for axis in "XYZ"
}
_OPS = {
    **dict.fromkeys(("start_ns", "end_ns", "device_id", "stream_id", "correlation_id"), pl.Int64),
    **dict.fromkeys(("context_id", "registers_per_thread", "bytes", *_SHAPE), pl.Int64),
    **dict.fromkeys(("static_shared_bytes", "dynamic_shared_bytes"), pl.Int64),
    **dict.fromkeys(("kind", "name", "copy_kind", "src_kind", "dst_kind"), pl.String),
}
_CALLS = {
    **dict.fromkeys(("pid", "tid", "start_ns", "end_ns", "correlation_id"), pl.Int64),
    "layer": pl.String,
    "name": pl.String,
}


class Table(NamedTuple):
    """A report's columns by name, without their units; and its rows."""

    places: dict[str, tuple[int, str]]  # the place and the unit
    rows: list[list[str]]
    width: int  # cells of the header

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.places


def make_table(header: list[str], rows: list[list[str]]) -> Table:
    """A report's header and rows; the header's units stand behind its names in brackets."""
    places = {}
    for place, title in enumerate(header):
        name, _, unit = title.strip('\ufeff "').partition("(")
        places[name.strip()] = (place, unit.rstrip(") ").lower())
    return Table(places, rows, len(header))


# Behind a name the start and the length of another row: the end of the line between is missing.
_JOINED = re.compile(r"\s{2,}[\d,.]+\s{2,}[\d,.]+\s{2,}")


class TraceRows:
    """What was read of reports: operations, calls, names of devices, and how many rows were not."""

    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.names: dict[int, str] = {}
        self.lost = 0

    def add(self, table: Table) -> None:
        """Take a report's rows."""
        is_device = table.has("Strm") or (table.has("CorrId") and not table.has("Pid"))
        for record in table.rows:
            row = _read_op(table, record, self.names) if is_device else _read_call(table, record)
            # A row of another length is one cut short, or two of them in a line.
            self.lost += row is None or len(record) != table.width
            if row is not None:
                (self.ops if is_device else self.calls).append(row)

    def build(self, quality: list[Quality]) -> Imported:
        """The import of all rows."""
        return _build(self.ops, self.calls, self.names, quality)


def _get(table: Table, record: list[str], *names: str) -> str:
    found = next((table.places[name] for name in names if name in table.places), None)
    return record[found[0]].strip() if found is not None and found[0] < len(record) else ""


def _read_number(
    table: Table, record: list[str], name: str, units: dict[str, int] | None = None
) -> int | None:
    """A cell as a whole number in ns or bytes; None for one that is empty or none."""
    text = _get(table, record, name).replace(",", "")
    if not _NUMBER.match(text):
        return None
    unit = 1 if units is None else units.get(table.places[name][1].split("/")[0], 1)
    return scale_figure(text, unit)


def _read_span(table: Table, record: list[str]) -> tuple[int, int] | None:
    start = _read_number(table, record, "Start", _NS)
    length = _read_number(table, record, "Duration", _NS)
    if start is None or length is None or start + length > INT64_MAX:
        return None
    return start, start + length


def _read_op(table: Table, record: list[str], names: dict[int, str]) -> dict[str, Any] | None:
    span, name = _read_span(table, record), replace_surrogates(_get(table, record, "Name"))
    if span is None or not name or _JOINED.search(name):
        return None
    device = _DEVICE.match(_get(table, record, "Device"))
    device_id = 0 if device is None else int(device[2])
    if device is not None:
        names.setdefault(device_id, replace_surrogates(device[1]))
    copied = _COPY.match(name)
    way = None if copied is None else copied[1].strip()
    is_fill = name.startswith("[CUDA memset")
    return {
        "start_ns": span[0],
        "end_ns": span[1],
        "device_id": device_id,
        "stream_id": _read_number(table, record, "Strm"),
        "context_id": _read_number(table, record, "Ctx"),
        "correlation_id": _read_number(table, record, "CorrId"),
        "kind": "memcpy" if way else "memset" if is_fill else "kernel",
        "name": name,
        "copy_kind": None if way is None else _WAYS.get(way.lower(), way),
        "src_kind": _read_memory(table, record, "SrcMemKd") if way else None,
        "dst_kind": _read_memory(table, record, "DstMemKd") if way or is_fill else None,
        "bytes": _read_number(table, record, "Bytes", _BYTES),
        "registers_per_thread": _read_number(table, record, "Reg/Trd"),
        "static_shared_bytes": _read_number(table, record, "StcSMem", _BYTES),
        "dynamic_shared_bytes": _read_number(table, record, "DymSMem", _BYTES),
        **{ours: _read_number(table, record, theirs) for ours, theirs in _SHAPE.items()},
    }


def _read_memory(table: Table, record: list[str], name: str) -> str | None:
    kind = _get(table, record, name).lower().removesuffix(" static")
    return replace_surrogates(kind) or None


def _read_call(table: Table, record: list[str]) -> dict[str, Any] | None:
    """A call of cuda_api_trace, or a range of nvtx_pushpop_trace."""
    span, name = _read_span(table, record), replace_surrogates(_get(table, record, "Name"))
    if span is None or not name:
        return None
    is_range = table.has("NumChild") or table.has("RangeId")
    ids = {
        ours: next(
            (n for title in titles if (n := _read_number(table, record, title)) is not None), None
        )
        for ours, titles in {
            "pid": ("Pid", "PID"),
            "tid": ("Tid", "TID"),
            "correlation_id": ("CorrID", "CorrId"),
        }.items()
    }
    is_runtime = name.startswith("cuda")
    return {
        **ids,
        "start_ns": span[0],
        "end_ns": span[1],
        "layer": "annotation" if is_range else "runtime" if is_runtime else "driver",
        "name": name.removeprefix(":") if is_range else name,
    }


def _build(
    ops: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    names: dict[int, str],
    quality: list[Quality],
) -> Imported:
    host = nest_ranges(pl.DataFrame(calls, schema=_CALLS, orient="row"))
    device = pl.DataFrame(ops, schema=_OPS, orient="row").sort(
        "start_ns", "end_ns", maintain_order=True
    )
    launches = host.filter(pl.col("layer") != "annotation").select(
        "correlation_id", launch_id="host_op_id"
    )
    launches = launches.drop_nulls().unique("correlation_id", keep="first", maintain_order=True)
    device = device.with_columns(device_op_id=pl.int_range(pl.len(), dtype=pl.Int64)).join(
        launches, on="correlation_id", how="left", maintain_order="left"
    )
    ids = sorted(set(device.get_column("device_id").to_list()))
    if not host.filter(pl.col("layer") != "annotation").height:
        text = "CUDA calls are not in it: who launched what, and why it waited, is not known"
        remedy = (
            "Give both, in one folder:  nsys stats --report cuda_gpu_trace,cuda_api_trace "
            "--format csv --output BASE REPORT; or the report itself, which has everything."
        )
        quality.append(Quality("no_host_ops", "warning", text, None, remedy))
    if ops and any(row["bytes"] for row in ops):
        text = "sizes of copies are rounded as the table prints them"
        quality.append(Quality("rounded_sizes", "info", text))
    tables = {
        "device_ops": device,
        "host_ops": host,
        "devices": pl.DataFrame(
            {
                "device_id": ids,
                "name": [names.get(i) for i in ids],
                "vendor": ["nvidia"] * len(ids),
            },
            schema={"device_id": pl.Int64, "name": pl.String, "vendor": pl.String},
        ),
    }
    return Imported(tables, Recording("nsys stats"), quality)
