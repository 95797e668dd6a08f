"""The chart as text: 80 columns, without colour."""

from __future__ import annotations

import math

from sightline.roofline.chart import Chart, format_tick, list_decades

_MARKS = "123456789abcdefghijklmnopqrstuvwxyz"


def draw_text(chart: Chart, width: int = 80, height: int = 20, top: int = 12) -> str:
    """The chart and its legend, no line longer than `width`."""
    left = 8
    columns = width - left - 1
    x0, x1 = (math.log10(v) for v in chart.x_range)
    y0, y1 = (math.log10(v) for v in chart.y_range)
    cells = [[" "] * columns for _ in range(height)]

    def at(x: float, y: float) -> tuple[int, int] | None:
        column = round((math.log10(x) - x0) / (x1 - x0) * (columns - 1))
        row = height - 1 - round((math.log10(y) - y0) / (y1 - y0) * (height - 1))
        return (row, column) if 0 <= row < height and 0 <= column < columns else None

    measured = [r for r in chart.roofs if r.basis == "measured"]
    flat = sorted((r for r in measured if r.kind == "compute"), key=lambda r: r.height)
    slanted = [r for r in measured if r.group == "dram"]
    for column in range(columns):
        x = 10 ** (x0 + (x1 - x0) * column / (columns - 1))
        for memory in slanted:
            place = at(x, memory.height * x)
            if place and (not flat or memory.height * x <= flat[-1].height):
                cells[place[0]][place[1]] = "/"
        for roof in flat:
            place = at(x, roof.height)
            if place and all(m.height * x >= roof.height for m in slanted):
                cells[place[0]][place[1]] = "─"
    for roof in flat:
        place = at(chart.x_range[1], roof.height)
        if place:
            _write(cells[place[0]], roof.label, right=True)
    for memory in slanted:
        place = at(chart.x_range[0], max(memory.height * chart.x_range[0], chart.y_range[0]))
        if place:
            _write(cells[max(0, place[0] - 1)], memory.label, right=False)
    for p in reversed(chart.points[:top]):
        place = at(p.x, p.y)
        if place:
            cells[place[0]][place[1]] = _MARKS[(p.number - 1) % len(_MARKS)]
    labels = {
        height - 1 - round((power - y0) / (y1 - y0) * (height - 1)): format_tick(power)
        for power in list_decades(chart.y_range)
    }
    lines = [chart.title[:width], ""]
    lines += [
        f"{labels.get(n, ''):>{left - 1}}│{''.join(row)}".rstrip() for n, row in enumerate(cells)
    ]
    lines.append(" " * (left - 1) + "└" + "─" * columns)
    ticks = [" "] * (columns + left)
    for power in list_decades(chart.x_range):
        text = format_tick(power)
        start = left + round((power - x0) / (x1 - x0) * (columns - 1)) - len(text) // 2
        start = min(start, len(ticks) - len(text))
        for n, char in enumerate(text):
            if 0 <= start + n < len(ticks):
                ticks[start + n] = char
    lines += [
        "".join(ticks).rstrip(),
        f"{'FLOP/s over FLOP per byte of device memory':^{width}}".rstrip(),
    ]
    lines.append("")
    for p in chart.points[:top]:
        name, precision, time, _, _, share, bound = p.legend
        lines.append(
            f"{_MARKS[(p.number - 1) % len(_MARKS)]}  {_clip(name, 24):<24} {precision:<11} "
            f"{time:>9}  {share:<17} {bound}".rstrip()[:width]
        )
    if chart.more:
        lines.append(f"   … and {chart.more} more")
    lines += [f"   {note}" for note in chart.left_out]
    return "\n".join(lines) + "\n"


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _write(row: list[str], text: str, *, right: bool) -> None:
    """A label into a row, over lines but not over other labels."""
    start = len(row) - len(text) - 1 if right else 1
    if start >= 0 and all(c in " /─" for c in row[start : start + len(text)]):
        row[start : start + len(text)] = list(text)
