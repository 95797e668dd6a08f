"""A series of measurements over a history, with its changes of level, on a terminal."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.text import Text

from sightline.core.algebra.change_points import FEWEST
from sightline.core.text import fit_text
from sightline.core.units import format_bytes, format_ns, format_several
from sightline.views.comparison.comparison import format_change_pct
from sightline.views.terminal.screen import wrap_text

WIDTH, MOST = 80, 200
ROWS, MARGIN = 9, 12
LEVEL, POINT = "─", "•"
MAX_LABEL = 24
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def render_series(data: dict[str, Any], width: int = WIDTH) -> Text:
    """The whole screen: what it is, the series as a plot, and its changes."""
    width = min(max(width, WIDTH), MOST)
    blocks = [list(_head(data, width)), list(_plot(data, width)), list(_changes(data, width))]
    return Text("\n\n").join(Text("\n").join(block) for block in blocks)


def format_value(metric: str, value: float) -> str:
    """A value of a metric with its unit."""
    if metric.endswith("_ns") or metric.startswith(("kernel:", "idle:")):
        return format_ns(value)
    if metric == "peak_memory" or metric.endswith("_bytes"):
        return format_bytes(value)
    return f"{value:,.4g}"


def write_date(ns: int) -> str:
    """The day of a moment, in UTC."""
    return f"{datetime.datetime.fromtimestamp(ns / 1e9, datetime.UTC):%Y-%m-%d}"


def split_levels(data: dict[str, Any]) -> list[tuple[int, int, float]]:
    """First point, last point and value of each level of the series."""
    edges = [0, *(change["at"] for change in data["changes"]), len(data["points"])]
    values = [change["before_value"] for change in data["changes"][:1]]
    values += [change["after_value"] for change in data["changes"]]
    if not values:
        known = [point["value"] for point in data["points"]]
        values = [math.fsum(known) / len(known)]
    return [(a, b - 1, v) for (a, b), v in zip(pairwise(edges), values, strict=True)]


def describe_change(change: dict[str, Any], metric: str) -> list[str]:
    """A change as lines: how much, since when, and whether it still is."""
    ratio = change["ratio"]
    pct = format_change_pct(None if ratio is None else 100 * (ratio - 1))
    values = [format_value(metric, change[k]) for k in ("before_value", "after_value")]
    range_ = f"{_cut(change['before'])}..{_cut(change['after'])}"
    lines = [f"{pct:>9}  {range_}  {values[0]} → {values[1]}, p {change['p_value']:.3f}"]
    wide = (change["first"], change["last"])
    if wide != (change["before"], change["after"]):
        lines.append(f"{'':>11}as likely anywhere in {_cut(wide[0])}..{_cut(wide[1])}")
    if change["went_away"]:
        lines.append(f"{'':>11}went away since")
    return lines


def _cut(label: str) -> str:
    """A label where there is little room; of a commit's hash its first twelve digits, as in git."""
    return label[:12] if _HASH.fullmatch(label) else fit_text(label, MAX_LABEL)


def _head(data: dict[str, Any], width: int) -> Iterator[Text]:
    points = data["points"]
    runs = sum(point["runs"] for point in points)
    yield Text(fit_text(data["metric"], width), style="bold")
    dates = [write_date(points[i]["added_ns"]) for i in (0, -1)]
    since = dates[0] if dates[0] == dates[1] else f"{dates[0]} to {dates[1]}"
    yield Text(f"{format_several(len(points), 'point')}, {format_several(runs, 'run')}, {since}")


def _plot(data: dict[str, Any], width: int) -> Iterator[Text]:
    """Points as dots, levels as lines; several points in a column where there are many."""
    values = [point["value"] for point in data["points"]]
    if len(values) == 1:
        yield Text(
            f"{format_value(data['metric'], values[0])}: one point, so there is no curve yet"
        )
        return
    low, high = min(values), max(values)
    columns = min(width - MARGIN, max(len(values), 2))
    grid = [[" "] * columns for _ in range(ROWS)]
    for first, last, value in split_levels(data):
        for column in range(_column(first, columns, values), _column(last, columns, values) + 1):
            grid[_row(value, low, high)][column] = LEVEL
    for number, value in enumerate(values):
        grid[_row(value, low, high)][_column(number, columns, values)] = POINT
    for row, cells in enumerate(grid):
        at = high - (high - low) * row / (ROWS - 1)
        told = format_value(data["metric"], at) if row in (0, ROWS // 2, ROWS - 1) else ""
        line = Text(f"{fit_text(told, MARGIN - 2):>{MARGIN - 2}}  ", style="dim")
        line.append("".join(cells).rstrip())
        yield line


def _column(number: int, columns: int, values: Sequence[float]) -> int:
    return number if len(values) <= columns else number * columns // len(values)


def _row(value: float, low: float, high: float) -> int:
    return round((ROWS - 1) * (high - value) / (high - low)) if high > low else ROWS // 2


def _changes(data: dict[str, Any], width: int) -> Iterator[Text]:
    if not data["changes"]:
        few = len(data["points"]) < FEWEST
        told = f"fewer than {FEWEST} points: not searched for changes" if few else "no change"
        yield Text(f"{told[:1].upper()}{told[1:]}{'' if few else ' that this series shows'}.")
        return
    yield Text("Changes of level", style="bold")
    for change in data["changes"]:
        worse = change["ratio"] is not None and change["ratio"] > 1
        for number, told in enumerate(describe_change(change, data["metric"])):
            style = "dim" if number or change["went_away"] else "red" if worse else "green"
            yield Text(fit_text(told, width), style=style)
    first, last, value = split_levels(data)[-1]
    yield from wrap_text(
        f"The last {format_several(last - first + 1, 'point')} stand at "
        f"{format_value(data['metric'], value)}.",
        "",
        "",
        width,
    )
