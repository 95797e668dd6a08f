"""Where each device's window went: a bar and a row of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.answer.price_words import label_device
from sightline.core.units import format_ns, format_pct
from sightline.views.notebook._style import COLOURS, Display, make_bars, wrap_html, write_table
from sightline.views.terminal.screen import list_parts

if TYPE_CHECKING:
    from sightline.answer.displays import Breakdown

DISPLAY = Display("breakdown")
_MOST_DEVICES = 64


def write_html(value: Breakdown) -> str:
    """Bars of each device, then the table."""
    rows = value.frame.to_dicts()
    parts = [(name, label) for name, label, *_ in list_parts(rows)]
    bars = "".join(_write_bar(row, parts) for row in rows[:_MOST_DEVICES])
    table = write_table(
        ["", *(label for _, label in parts), "window"],
        [_write_cells(row, rows, parts) for row in rows[:_MOST_DEVICES]],
    )
    legend = " ".join(
        f'<i style="background:{COLOURS[name]}"></i>{label}&ensp;' for name, label in parts
    )
    return wrap_html(bars, f'<p class="soft">{legend}</p>', table)


def write_text(value: Breakdown) -> str:
    """The table as text."""
    rows = value.frame.to_dicts()
    parts = [(name, label) for name, label, *_ in list_parts(rows)]
    header = ["", *(label for _, label in parts), "window"]
    lines = [header, *(_write_cells(row, rows, parts) for row in rows[:_MOST_DEVICES])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def list_rows(value: Breakdown) -> list[dict[str, Any]]:
    """One row a device."""
    return value.frame.to_dicts()


def make_chart(altair: Any, rows: list[dict[str, Any]]) -> Any:
    """Stacked bars, a device each."""
    values = [
        {"device": label_device(row, rows), "part": part, "ms": row[f"{part}_ns"] / 1e6}
        for row in rows
        for part in COLOURS
    ]
    scale = altair.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    return make_bars(
        altair,
        values,
        x=altair.X("ms:Q", title="ms"),
        y=altair.Y("device:N", sort=None, title=None),
        color=altair.Color("part:N", scale=scale, title=None),
    )


def _write_bar(row: dict[str, Any], parts: list[tuple[str, str]]) -> str:
    return (
        '<div class="bar">'
        + "".join(
            f'<div style="width:{row[f"{name}_pct"]:.3f}%;background:{COLOURS[name]}" '
            f'title="{label}: {format_pct(row[f"{name}_pct"])}"></div>'
            for name, label in parts
        )
        + "</div>"
    )


def _write_cells(
    row: dict[str, Any], rows: list[dict[str, Any]], parts: list[tuple[str, str]]
) -> list[str]:
    shares = [
        f"{format_ns(row[f'{name}_ns'])} ({format_pct(row[f'{name}_pct'])})" for name, _ in parts
    ]
    return [label_device(row, rows), *shares, format_ns(row["window_ns"])]
