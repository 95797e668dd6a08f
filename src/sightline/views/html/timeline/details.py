"""What a click on an event tells beyond its name and time: shapes, launch shape, bytes, stack."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sightline.core.algebra.lookup import number_groups
from sightline.core.text import make_printable
from sightline.core.units import format_bytes, format_count

# All details together, before packing. What is more is left out from the last field on.
MAX_BYTES = 6_000_000
DEVICE_FIELDS = (
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "cluster_x",
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "bytes",
    "copy_kind",
    "src_kind",
    "dst_kind",
    "graph_id",
)
# In order of worth: what does not fit is left out from the end.
HOST_FIELDS = ("input_shapes", "input_types", "domain", "category", "payload", "stack")
_HOST_LABELS = {"input_shapes": "shapes", "input_types": "types", "stack": "stack"}


def list_device_details(ops: pl.DataFrame) -> tuple[pl.Series, list[str]]:
    """For each operation a place in the list of texts; 0 has no details."""
    used = [c for c in DEVICE_FIELDS if ops.get_column(c).count()]
    if not used:
        return pl.repeat(0, ops.height, dtype=pl.UInt32, eager=True), [""]
    return _placed(*number_groups(ops, used), write_device_text)


def list_host_details(ops: pl.DataFrame) -> tuple[pl.Series, list[str], list[str]]:
    """The same of host ranges, and the fields that were left out for their size."""
    used = [c for c in HOST_FIELDS if ops.get_column(c).count()]
    left_out: list[str] = []
    while used:
        places, distinct = number_groups(ops, used)
        size = distinct.select(pl.sum_horizontal(pl.all().str.len_bytes().fill_null(0)).sum())
        if int(size.item() or 0) <= MAX_BYTES and distinct.height <= MAX_BYTES // 40:
            return *_placed(places, distinct, write_host_text), left_out
        left_out.insert(0, _HOST_LABELS.get(used[-1], used[-1]))
        used.pop()
    return pl.repeat(0, ops.height, dtype=pl.UInt32, eager=True), [""], left_out


def _placed(
    places: pl.Series, known: pl.DataFrame, write: Callable[[dict[str, object]], str]
) -> tuple[pl.Series, list[str]]:
    """Places among the different texts instead of among the different rows."""
    # Different rows can read the same, and rows without any value read as nothing.
    place: dict[str, int] = {"": 0}
    final = [place.setdefault(write(row), len(place)) for row in known.iter_rows(named=True)]
    return pl.Series(final, dtype=pl.UInt32).gather(places), list(place)


def write_device_text(row: dict[str, object]) -> str:
    """A line for each fact of a device operation, `row` with DEVICE_FIELDS."""
    lines = []
    for label in ("grid", "block"):
        sides = [row.get(f"{label}_{axis}") for axis in "xyz"]
        if sides[0] is not None:
            lines.append(f"{label}: " + " × ".join(str(1 if s is None else s) for s in sides))
    for name, label in (
        ("cluster_x", "cluster x"),
        ("registers_per_thread", "registers"),
        ("graph_id", "graph"),
    ):
        if (value := row.get(name)) is not None:
            lines.append(f"{label}: {value}")
    for name, label in (
        ("static_shared_bytes", "static shared"),
        ("dynamic_shared_bytes", "dynamic shared"),
    ):
        if isinstance(value := row.get(name), int):
            lines.append(f"{label}: {format_bytes(value)}")
    if isinstance(value := row.get("bytes"), int):
        lines.append(f"bytes: {format_bytes(value)} ({format_count(value)})")
    if row.get("copy_kind"):
        lines.append(f"direction: {row['copy_kind']}")
    if row.get("src_kind"):
        lines.append(f"memory: {row['src_kind']} → {row.get('dst_kind') or 'not recorded'}")
    return "\n".join(make_printable(line) for line in lines)


def write_host_text(row: dict[str, object]) -> str:
    """A line for each fact of a host range, `row` with HOST_FIELDS, or some of them."""
    lines = []
    for name, value in row.items():
        if value in (None, "", "[]"):
            continue
        lines.append(f"{_HOST_LABELS.get(name, name)}: {make_printable(str(value))}")
    return "\n".join(lines)
