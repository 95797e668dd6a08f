"""What unitrace's files share: what the name of a device's work says of it."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

# Work-groups and the work-items of one.
_SHAPE = re.compile(r"^(.*?)\[SIMD\w+ \{(\d+); (\d+); (\d+)\} \{(\d+); (\d+); (\d+)\}\]$")
_BYTES = re.compile(r"^(.*)\[(\d{1,18})\]$")
_COPY = re.compile(r"MemoryCopy\w*\(([A-Z])2([A-Z])\)")
# Memory of the system, and the host's and device's allocations of USM; shared ones may be either.
_SIDES = {"M": "H", "H": "H", "D": "D"}
_OPENCL = {"clEnqueueWriteBuffer": "HtoD", "clEnqueueReadBuffer": "DtoH"}
# Entries of a command list that do no work: their time is that of what they wait for.
_WAITS = ("AppendBarrier", "AppendEventReset", "AppendWaitOnEvents", "AppendSignalEvent")
_AXES = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
_DESCRIBED = {
    "kind": pl.String, "name": pl.String, "grid_x": pl.Int64, "grid_y": pl.Int64,
    "grid_z": pl.Int64, "block_x": pl.Int64, "block_y": pl.Int64, "block_z": pl.Int64,
    "bytes": pl.Int64, "copy_kind": pl.String,
}  # fmt: skip


def split_shape(name: str) -> tuple[str, dict[str, int]]:
    """A kernel's plain name, and grid_x … block_z where they stand behind it and fit 31 bits."""
    found = _SHAPE.match(name)
    if found is None:
        return name, {}
    sizes = {axis: int(size) for axis, size in zip(_AXES, found.groups()[1:], strict=True)}
    return found[1], sizes if all(size < 2**31 for size in sizes.values()) else {}


def is_wait(entry: pl.Expr) -> pl.Expr:
    """Whether an entry of a command list does no work."""
    return pl.any_horizontal(entry.str.contains(word, literal=True) for word in _WAITS)


def is_waiting(name: str) -> bool:
    """The same of one name."""
    return any(word in name for word in _WAITS)


def describe_entries(work: pl.DataFrame) -> pl.DataFrame:
    """Entries (`entry`: its name) with what their names say: kind, name, shape, bytes."""
    names = work.get_column("entry").unique(maintain_order=True)
    said = [{"entry": name, **describe_entry(name)} for name in names]
    known = pl.DataFrame(said, schema={"entry": pl.String, **_DESCRIBED})
    return work.join(known, on="entry", how="left", maintain_order="left").drop("entry")


def describe_entry(name: str) -> dict[str, Any]:
    """What an entry is, by its name: its `kind` and plain `name`, and shape or bytes."""
    kernel, shape = split_shape(name)
    if kernel != name:
        return {"kind": "kernel", "name": kernel, **shape}
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
