"""Two memory peaks against each other on a terminal: what grew, by kind and by place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text, make_printable
from sightline.core.units import format_bytes, format_several

_WIDTH, _MOST = 80, 200
_PLACES = 10
_FIGURES = 3 * 12  # three columns of bytes


def render_peaks(data: dict[str, Any], width: int = _WIDTH) -> Text:
    """The whole screen: each device's peaks, then what their difference is made of."""
    width = min(max(width, _WIDTH), _MOST)
    return Text("\n").join(line for peak in data["peaks"] for line in _memory(data, peak, width))


def _memory(data: dict[str, Any], peak: dict[str, Any], width: int) -> Iterator[Text]:
    name = "host" if peak["device_id"] is None else f"GPU {peak['device_id']}"
    rank = f"rank {peak['rank']} " if peak["rank"] else ""
    label = width - _FIGURES
    head = f"{'before':>12}{'after':>12}{'change':>12}"
    yield Text(f"{rank}{name}, the peak".ljust(label) + head, "bold")
    yield _row("allocated", peak, label)
    if peak["change_bytes"] is None:
        yield Text("  it was recorded on one side only", "dim")
        return
    for title, key, most in (
        ("what it holds", "kinds", None),
        ("who allocated it", "places", _PLACES),
    ):
        rows = [row for row in data[key] if _is_same(row, peak) and row["change_bytes"]]
        if not rows:
            continue
        yield Text()
        yield Text(title, "bold")
        for row in rows[:most]:
            place = "" if key == "kinds" else f"{row['place'] or 'no stack recorded'}, "
            yield _row(f"{place}{row['kind']}", row, label)
        left = rows[most:] if most else []
        if left:
            change = sum(row["change_bytes"] for row in left)
            yield Text(
                f"  {format_several(len(left), 'more place')}, together {_signed(change)}: --json",
                "dim",
            )
    yield Text()


def _row(name: str, row: dict[str, Any], width: int) -> Text:
    sizes = f"{format_bytes(row['before_bytes']):>12}{format_bytes(row['after_bytes']):>12}"
    shown = fit_text(make_printable(name), width - 3)
    return Text(f"  {shown:<{width - 2}}{sizes}{_signed(row['change_bytes']):>12}")


def _signed(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{'+' if size > 0 else '-' if size < 0 else ''}{format_bytes(abs(size))}"


def _is_same(row: dict[str, Any], peak: dict[str, Any]) -> bool:
    return all(row[key] == peak[key] for key in ("rank", "device_id", "memory_kind"))
