"""What bounds a profiled kernel, in a sentence, and how busy the units of its memory are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from sightline.core.page.declare import Block
from sightline.core.units import format_bytes, format_pct

# A verdict of `speed_of_light`, as a sentence with its columns.
_SENTENCES = {
    "compute": "Compute bounds it: {sm_pct} of the peak{sm_part}.",
    "memory": "Memory bounds it: {memory_pct} of the peak{memory_part}.",
    "balanced": "Compute ({sm_pct} of the peak) and memory ({memory_pct}) bound it alike.",
    "latency": "Latency bounds it: neither compute ({sm_pct} of the peak) nor memory "
    "({memory_pct}) is busy.",
    "small_grid": "The grid bounds it: {waves} waves of blocks leave compute at {sm_pct} of the "
    "peak and memory at {memory_pct}.",
}
# Units from the multiprocessor to the device's memory: the column of `speed_of_light` that says
# how busy one is, and the levels of `memory_hierarchy` whose figures stand with it.
_UNITS = (
    ("Multiprocessors", "sm_pct", ()),
    ("L1 and shared memory", "l1_pct", ("l1", "shared")),
    ("L2", "l2_pct", ("l2",)),
    ("Device memory", "dram_pct", ("dram",)),
)
# Quantities that are traffic on the way into the unit before.
_TRAFFIC = ("read by L1", "read", "written")
_SAME_PCT = 0.05  # half of the last digit that is shown
# What stands in a unit: the busiest figure is the bar beside them, and zeros say nothing.
_SHOWN_NOTES = ("hit rate", "sectors per request", "bank conflicts", "wavefronts per request")


def name_limit(row: Mapping[str, Any] | None, stalls: pl.DataFrame | None) -> str:
    """What bounds the kernel of this row of `speed_of_light`, and its largest stall, if known."""
    wait = "" if stalls is None else _name_stall(stalls)
    if row is None or row["verdict"] is None:
        return wait
    if row["verdict"] == "memory" and (unit := _name_busiest(row)) is not None:
        return f"{unit} bounds it: {format_pct(row['memory_pct'])} of its peak. {wait}".rstrip()
    figures = {name: format_pct(row[name]) for name in ("sm_pct", "memory_pct")}
    parts = {n: f" ({row[n]})" if row[n] else "" for n in ("sm_part", "memory_part")}
    waves = "" if row["waves"] is None else f"{row['waves']:.2f}"
    said = _SENTENCES[row["verdict"]].format(**figures, **parts, waves=waves)
    return f"{said} {wait}".rstrip()


def _name_busiest(row: Mapping[str, Any]) -> str | None:
    """The unit of the memory that is as busy as the memory is said to be, if one is known to be."""
    units = [(row[column], label) for label, column, levels in _UNITS if levels and row[column]]
    pct, label = max(units, default=(0.0, None))
    return label if row["memory_pct"] and abs(pct - row["memory_pct"]) < _SAME_PCT else None


def _name_stall(stalls: pl.DataFrame) -> str:
    """The stall that holds warps most, of the first way of counting that was recorded."""
    waits = stalls.filter(~pl.col("reason").is_in(["selected", "not_selected"]))
    if waits.is_empty():
        return ""
    own = waits.filter(pl.col("family") == waits.item(0, "family"))
    by = ["reason", "stall_class"]
    most = own.group_by(by).agg(pl.col("share_pct").sum()).sort("share_pct", "reason").tail(1)
    reason, stall_class, share = most.row(0)
    return f"Warps wait mostly in {reason} ({stall_class}): {format_pct(share)}."


def draw_traffic(row: Mapping[str, Any], hierarchy: pl.DataFrame) -> Iterator[Block]:
    """The units on the way to memory, how busy each is, and what moves between them."""
    figures = hierarchy.drop_nulls("value").select("level", "quantity", "value", "unit").rows()
    units = [
        {"label": label, "pct": row[column], "notes": list(_list_notes(figures, levels))}
        for label, column, levels in _UNITS
    ]
    if all(unit["pct"] is None for unit in units):
        return
    links = ["", *(_name_traffic(figures, levels) for _, _, levels in _UNITS[2:])]
    yield {"kind": "flow", "title": "Memory", "units": units, "links": links}


def _list_notes(figures: Iterable[tuple[Any, ...]], levels: tuple[str, ...]) -> Iterable[str]:
    for level, quantity, value, unit in figures:
        if level in levels and quantity.startswith(_SHOWN_NOTES) and (value or "hit" in quantity):
            yield f"{quantity}: {_write(value, unit)}"


def _name_traffic(figures: Iterable[tuple[Any, ...]], levels: tuple[str, ...]) -> str:
    return ", ".join(
        f"{_write(value, unit)} {quantity}"
        for level, quantity, value, unit in figures
        if level in levels and quantity in _TRAFFIC
    )


def _write(value: float, unit: str) -> str:
    if unit == "%":
        return format_pct(value)
    return f"{format_bytes(value)}/s" if unit == "bytes/s" else f"{value:.4g} {unit}"
