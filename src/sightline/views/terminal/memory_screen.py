"""What fills a device's memory, as one screen of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.text import Text

from sightline.answer.memory_use import BAR, SPARK
from sightline.answer.price_words import write_price
from sightline.core.text import fit_text, make_printable
from sightline.core.units import format_bytes, format_count, format_pct, format_several
from sightline.views.terminal.program_screen import print_programs
from sightline.views.terminal.screen import warn_of

_PLACES, _WHAT_IFS, _FINDINGS, _DEVICES = 6, 4, 4, 8


_BATCHES = {0.5: "half the batch", 0.25: "a quarter of it"}


_RISING = " ▁▂▃▄▅▆▇█"


def print_screen(data: dict[str, Any], width: int) -> Iterator[Text]:
    """The screen, line by line."""
    shown = data["peaks"][:_DEVICES]
    for place, peak in enumerate(shown):
        if place:
            yield Text()
        yield from _device(data, peak)
    if len(data["peaks"]) > len(shown):
        left = len(data["peaks"]) - len(shown)
        yield Text(f"… {format_several(left, 'more memory', 'more memories')}: --json", "dim")
    for row in data["fragmentation"][:_DEVICES]:
        yield Text()
        yield from _free(row)
    yield from print_programs(data["programs"])
    yield from _findings(data["findings"], width)
    for limit in data["limits"]:
        yield Text()
        yield from warn_of(limit, width)


def _device(data: dict[str, Any], peak: dict[str, Any]) -> Iterator[Text]:
    name = _name_memory(peak)
    whole = max(peak["allocated_bytes"], 1)
    yield Text(
        f"{name:<22}peak {format_bytes(peak['allocated_bytes'])}"
        + (f" in {format_several(peak['blocks'], 'block')}" if peak["blocks"] else ""),
        "bold",
    )
    reserved = peak["most_reserved_bytes"]
    if reserved:
        yield Text(f"{'':<22}{format_bytes(reserved)} taken from the driver at most", "dim")
    for row in data["outside"]:
        if peak["memory_kind"] == "device" and _is_on(row, peak):
            said = f"{format_bytes(row['outside_bytes'])} used besides: driver, libraries, others"
            yield Text(f"{'':<22}{said}", "dim")
    yield from _curve(data, peak, whole)
    rows = pl.DataFrame(
        [row for row in data["peak_blocks"] if _is_same(row, peak)], infer_schema_length=None
    )
    if rows.is_empty():
        return
    yield Text()
    yield Text(f"{'At the peak':<46}{'bytes':>12}{'share':>9}{'blocks':>9}", "bold")
    for kind, size, blocks in _sum_by(rows, ["kind"]).rows():
        bar = "█" * round(BAR * size / whole)
        yield Text(f"  {kind:<26}{bar:<18}"[:46] + _figures(size, whole, blocks))
    yield Text()
    yield Text(f"{'Allocated most of it':<46}{'bytes':>12}{'share':>9}{'blocks':>9}", "bold")
    for place, kind, size, blocks in _sum_by(rows, ["place", "kind"]).head(_PLACES).rows():
        label = fit_text(place or "no stack recorded", 27)
        yield Text(f"  {label:<28}{kind[:15]:<16}" + _figures(size, whole, blocks))
    yield from _what_if(
        [row for row in data["what_if"] if _is_same(row, peak)],
        [row for row in data["smaller_batch"] if _is_same(row, peak)],
    )


def _sum_by(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return (
        rows.group_by(by)
        .agg(pl.col("bytes", "blocks").sum())
        .sort("bytes", *by, descending=[True, *[False] * len(by)], nulls_last=True)
    )


def _figures(size: int, whole: int, blocks: int) -> str:
    share = format_pct(100 * size / whole)
    return f"{format_bytes(size):>12}{share:>9}{format_count(blocks) if blocks else '':>9}"


def _curve(data: dict[str, Any], peak: dict[str, Any], whole: int) -> Iterator[Text]:
    """The most that was allocated over time, as one line of bars."""
    parts = [""] * SPARK
    mine = [row for row in data["over_time"] if _is_same(row, peak)]
    if len(mine) < 2:
        return
    for row in mine:
        height = max(0, min(8, -(-8 * row["allocated_bytes"] // whole)))
        parts[row["part"]] = _RISING[height]
    last = " "
    for place, mark in enumerate(parts):
        last = parts[place] = mark or last
    yield Text(f"{'  allocated over time':<22}" + "".join(parts[: 80 - 22]))


def _what_if(rows: list[dict[str, Any]], batches: list[dict[str, Any]]) -> Iterator[Text]:
    if not rows and not batches:
        return
    yield Text()
    yield Text(f"{'Without it':<46}{'peak is':>12}{'frees up to':>18}", "bold")
    for row in rows[:_WHAT_IFS]:
        label = f"{row['without']}"
        if row["of"] == "allocator":
            label = f"with {label} (reserved)"
        sizes = f"{format_bytes(row['after_bytes']):>12}{format_bytes(row['gain_bytes']):>18}"
        yield Text(f"  {fit_text(label, 43):<44}{sizes}")
    for row in batches:
        span = f"{format_bytes(row['after_low_bytes'])} to {format_bytes(row['after_high_bytes'])}"
        label = f"{_BATCHES[row['batch']]} ({span})"
        gain = row["before_bytes"] - row["after_bytes"]
        sizes = f"{format_bytes(row['after_bytes']):>12}{format_bytes(gain):>18}"
        yield Text(f"  {fit_text(label, 43):<44}{sizes}")


def _free(row: dict[str, Any]) -> Iterator[Text]:
    """What the allocator held at the end, and could not use."""
    yield Text(f"{_name_memory(row):<22}at the end of the recording", "bold")
    parts = (
        ("in use", row["active_bytes"]),
        ("free, in segments that nothing uses", row["unused_bytes"]),
        ("free, between blocks in use", row["pinned_bytes"]),
    )
    for label, size in parts:
        yield Text(f"  {label:<44}" + _figures(size, row["reserved_bytes"] or 1, 0)[:21])
    if row["pieces"]:
        yield Text(
            f"  {format_several(row['pieces'], 'free piece')}, the largest "
            f"{format_bytes(row['largest_free_bytes'])}",
            "dim",
        )


def _findings(found: list[dict[str, Any]], width: int) -> Iterator[Text]:
    if not found:
        return
    yield Text()
    yield Text("Findings", "bold")
    for number, item in enumerate(found[:_FINDINGS], 1):
        prices = write_price(item, [])[:-1]
        head = f"{number}  {item['title']}"
        gain = prices[-1] if prices else ""
        if len(head) + len(gain) + 2 <= width:
            yield Text(head) + Text(gain.rjust(width - len(head)), "dim")
        else:
            yield Text(head)
            yield Text(f"   {gain}", "dim")
    yield Text("   why, and what to change:  sightline findings, with the same file", "dim")


def _is_same(row: dict[str, Any], peak: dict[str, Any]) -> bool:
    return _is_on(row, peak) and row["memory_kind"] == peak["memory_kind"]


def _is_on(row: dict[str, Any], peak: dict[str, Any]) -> bool:
    return (row["rank"], row["device_id"]) == (peak["rank"], peak["device_id"])


def _name_memory(row: dict[str, Any]) -> str:
    place = "host" if row["device_id"] is None else f"GPU {row['device_id']}"
    kind = row.get("memory_kind")
    extra = f", {kind}" if kind not in (None, "device") else ""
    rank = f"rank {row['rank']} " if row["rank"] else ""
    return make_printable(f"{rank}{place}{extra}")
