"""Intel unitrace --device-timeline: when each kernel and copy was appended, submitted, begun, done.

Format: intel/pti-gpu, tools/unitrace: a line for each, of Level Zero (names in quotes) or OpenCL.
Times are in ns of the machine's monotonic clock; devices are the driver's handles.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sightline.errors import DamagedError
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="unitrace_timeline",
    label="Intel unitrace device timeline (text)",
    strong=(rb"(?:^|\n)Thread \d+ Device \w+ : [^\n]+ \[ns\] \d+ \(append\) \d+ \(submit\)",),
    weak=(),
    looks_like='lines such as Thread 1 Device 2 : "NAME" [ns] 3 (append) 4 (submit) …',
    suffixes=(".txt",),
    version=2,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
)

_LINE = re.compile(
    r"Thread (\d{1,9}) Device (\w+) : (.+?) \[ns\] "
    r"(\d{1,18}) \(append\) (\d{1,18}) \(submit\) (\d{1,18}) \(start\) (\d{1,18}) \(end\)"
)
# Work-groups and the work-items of one, behind a kernel's name.
_SHAPE = re.compile(r"^(.*?)\[SIMD\w+ \{(\d+); (\d+); (\d+)\} \{(\d+); (\d+); (\d+)\}\]$")
_BYTES = re.compile(r"^(.*)\[(\d{1,18})\]$")
_COPY = re.compile(r"MemoryCopy\w*\(([A-Z])2([A-Z])\)")
# Memory of the system, and the host's and device's allocations of USM; shared ones may be either.
_SIDES = {"M": "H", "H": "H", "D": "D"}
_OPENCL = {"clEnqueueWriteBuffer": "HtoD", "clEnqueueReadBuffer": "DtoH"}
# Entries of a command list that do no work: their time is that of what they wait for.
_WAITS = ("AppendBarrier", "AppendEventReset", "AppendWaitOnEvents", "AppendSignalEvent")
_SCHEMA = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "device_id": pl.Int64, "kind": pl.String,
    "name": pl.String, "grid_x": pl.Int64, "grid_y": pl.Int64, "grid_z": pl.Int64,
    "block_x": pl.Int64, "block_y": pl.Int64, "block_z": pl.Int64, "bytes": pl.Int64,
    "copy_kind": pl.String, "tid": pl.Int64, "submit_ns": pl.Int64,
}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    lines = [line for line in read_text(source, quality).splitlines() if line.strip()]
    devices: dict[str, int] = {}
    work: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    bad = 0
    for line in lines:
        # Where two threads print at once, a line's end may be missing.
        found = list(_LINE.finditer(line))
        bad += not found
        for match in found:
            start, end = int(match[6]), int(match[7])
            if end < start:
                bad += 1
                continue
            name = match[3].strip('"')
            place = {"device_id": devices.setdefault(match[2], len(devices))}
            times = {"start_ns": start, "end_ns": end}
            call = {"tid": int(match[1]), "submit_ns": int(match[5])}
            if any(wait in name for wait in _WAITS):
                waits.append({"name": name, **place, **times})
            else:
                work.append({**place, **times, **call, **_describe(name)})
    if not work and not waits:
        raise DamagedError(f"cannot read {source.given}", why="no line of it is whole")
    quality += note_bad_lines(bad, "entry of the device's timeline")
    text = "of API calls only the moments of submitting were recorded: not what the host did before"
    remedy = "Record them, too:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM"
    quality.append(Quality("no_api_calls", "warning", text, None, remedy))
    ops = pl.DataFrame(work, schema=_SCHEMA).sort("start_ns", "end_ns", maintain_order=True)
    submits = _list_submits(ops)
    ops = ops.join(submits, on=["tid", "submit_ns"], how="left", maintain_order="left")
    ranges = {n: _SCHEMA[n] for n in ("device_id", "name", "start_ns", "end_ns")}
    tables = {
        "device_ops": ops.select(
            pl.exclude("tid", "submit_ns", "host_op_id"),
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            launch_id="host_op_id",
        ),
        "host_ops": submits.select(
            "host_op_id",
            "tid",
            layer=pl.lit("runtime"),
            name=pl.lit("submit"),
            start_ns="submit_ns",
            end_ns="submit_ns",
        ),
        "device_ranges": pl.DataFrame(waits, schema=ranges),
        "devices": pl.DataFrame(
            {"device_id": list(devices.values()), "vendor": ["intel"] * len(devices)},
            schema={"device_id": pl.Int64, "vendor": pl.String},
        ),
    }
    return Imported(tables, Recording("unitrace"), quality)


def _list_submits(ops: pl.DataFrame) -> pl.DataFrame:
    """The moments at which a thread handed work to the driver: one call for all that it held."""
    found = ops.select("tid", "submit_ns").unique().sort("tid", "submit_ns")
    return found.with_columns(host_op_id=pl.int_range(pl.len(), dtype=pl.Int64))


def _describe(name: str) -> dict[str, Any]:
    """What an entry is, by its name."""
    shape = _SHAPE.match(name)
    if shape:
        axes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
        sizes = {axis: int(size) for axis, size in zip(axes, shape.groups()[1:], strict=True)}
        fits = all(size < 2**31 for size in sizes.values())
        return {"kind": "kernel", "name": shape[1], **(sizes if fits else {})}
    sized = _BYTES.match(name)
    plain, size = (sized[1], int(sized[2])) if sized else (name, None)
    copy = _COPY.search(plain)
    if copy:
        ends = [_SIDES.get(side) for side in copy.groups()]
        kind = None if None in ends else f"{ends[0]}to{ends[1]}"
        return {"kind": "memcpy", "name": plain, "bytes": size, "copy_kind": kind}
    if plain in _OPENCL:
        return {"kind": "memcpy", "name": plain, "bytes": size, "copy_kind": _OPENCL[plain]}
    if "MemoryFill" in plain or plain == "clEnqueueFillBuffer":
        return {"kind": "memset", "name": plain, "bytes": size}
    return {"kind": "kernel", "name": plain if sized and "Append" in plain else name}
