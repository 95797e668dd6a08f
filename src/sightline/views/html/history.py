"""A series over a history as one offline page: the picture, the changes, the points."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import polars as pl

from sightline.core.model.columns import real, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.version import __version__
from sightline.views.comparison.comparison import format_change_pct
from sightline.views.comparison.history import format_value, split_levels, write_date
from sightline.views.html.page import SCHEMA, load_template

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 900, 320, 84, 30, 14, 12
# Ink, grid, points, levels, worse, better: on white, and on the page's dark ground.
_LIGHT = ("#333333", "#dddddd", "#3b6ea5", "#111111", "#b3261e", "#1a7f37")
_DARK = ("#cccccc", "#3a3f46", "#7fb2e5", "#ffffff", "#ff8a80", "#7ee787")


def write_page(data: dict[str, Any]) -> bytes:
    """The page of a series, of the data of `describe_series`."""
    title = make_printable(data["metric"])
    panel = {"name": "history", "title": "History", "blocks": list(_make_blocks(data))}
    points = data["points"]
    runs = sum(point["runs"] for point in points)
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": title,
        "about": [f"{format_several(len(points), 'point')}, {format_several(runs, 'run')}"],
        "origin_ns": "0",
        "length_ns": 0,
        "panels": [panel],
    }
    return load_template(content, title)


def draw_series(data: dict[str, Any], *, dark: bool = False) -> str:
    """The series as SVG: points, the levels between its changes, and the changes."""
    colours = _DARK if dark else _LIGHT
    values = [point["value"] for point in data["points"]]
    low, high = min(values), max(values)
    body = "\n".join(_draw(data, colours, low, high if high > low else low + 1))
    told = escape(f"{make_printable(data['metric'])} over {format_several(len(values), 'point')}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="{told}">\n{body}\n</svg>\n'
    )


def _draw(data: dict[str, Any], colours: tuple[str, ...], low: float, high: float) -> Iterator[str]:
    ink, grid, dot, level, worse, better = colours
    points = data["points"]

    def x(number: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number + 0.5) / len(points)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _BOTTOM - _TOP) * (high - value) / (high - low)

    for value in (low, (low + high) / 2, high):
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            f'stroke="{grid}"/><text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" '
            f'fill="{ink}">{format_value(data["metric"], value)}</text>'
        )
    for change in data["changes"]:
        at, ratio = x(change["at"] - 0.5), change["ratio"]
        colour = worse if ratio is not None and ratio > 1 else better
        faded = ' stroke-opacity="0.4"' if change["went_away"] else ""
        yield (
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
            f'stroke="{colour}" stroke-dasharray="4 3"{faded}/>'
        )
    for number, point in enumerate(points):
        told = f"{point['label']}: {format_value(data['metric'], point['value'])}"
        yield (
            f'<circle cx="{x(number):.1f}" cy="{y(point["value"]):.1f}" r="3" fill="{dot}">'
            f"<title>{escape(make_printable(told))}</title></circle>"
        )
    for first, last, value in split_levels(data):
        yield (
            f'<line x1="{x(first - 0.5):.1f}" x2="{x(last + 0.5):.1f}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}" stroke="{level}" stroke-width="1.5"/>'
        )
    for number, anchor in ((0, "start"), (len(points) - 1, "end")):
        yield (
            f'<text x="{x(number):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}" fill="{ink}">'
            f"{write_date(points[number]['added_ns'])}</text>"
        )


def _make_blocks(data: dict[str, Any]) -> Iterator[Block]:
    light, dark = (draw_series(data, dark=on) for on in (False, True))
    alt = make_printable(f"{data['metric']} over time")
    yield {"kind": "image", "svg": light, "dark": dark, "alt": alt}
    metric = data["metric"]
    changes = [
        {
            "between": f"{change['before']}..{change['after']}",
            "change": format_change_pct(
                None if change["ratio"] is None else 100 * (change["ratio"] - 1)
            ),
            "before": format_value(metric, change["before_value"]),
            "after": format_value(metric, change["after_value"]),
            "as_likely_in": f"{change['first']}..{change['last']}",
            "still_there": "no" if change["went_away"] else "yes",
            "p_value": change["p_value"],
        }
        for change in data["changes"]
    ]
    if changes:
        columns = (
            text("between", "the last point before and the first after"),
            text("change", "of the level"),
            text("before", "level before"),
            text("after", "level after"),
            text("as_likely_in", "where the change may as well be"),
            text("still_there", "whether the last level is no longer that of before"),
            real("p_value", "how often series without a change look like this", ""),
        )
        yield blocks.make_table("Changes of level", pl.DataFrame(changes), columns)
    else:
        yield blocks.make_text("No change of level that this series shows.")
    points = [
        {
            "point": point["label"],
            "day": write_date(point["added_ns"]),
            "value": format_value(metric, point["value"]),
            "runs": float(point["runs"]),
        }
        for point in data["points"]
    ]
    shown = (
        text("point", f"{make_printable(data['by'])}, or the run"),
        text("day", "when it was added, UTC"),
        text("value", make_printable(metric)),
        real("runs", "runs of it", ""),
    )
    yield blocks.make_table("Points", pl.DataFrame(points), shown)
