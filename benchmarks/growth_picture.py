"""Lines on two logarithmic axes, as SVG: what grows how fast can be seen by its slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# The size of one plot with its margins, in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 330, 58, 16, 40, 44
INK, MUTED, GRID, PAPER = "#1f2933", "#66727f", "#e6eaee", "#ffffff"
# Hues and shapes: a line is told by its mark, too.
HUES = ("#2f6f9f", "#b5562b", "#3a8f85", "#7a1f4f", "#66727f")
LEGEND = 24


@dataclass(frozen=True)
class Plot:
    """One plot: lines of (x, y) by name."""

    title: str
    x_label: str
    lines: dict[str, list[tuple[float, float]]]


def draw_plots(plots: Sequence[Plot], columns: int = 2) -> str:
    """All plots as one SVG document, with one legend above them."""
    names = list(dict.fromkeys(name for plot in plots for name in plot.lines))
    rows = -(-len(plots) // columns)
    width, height = WIDTH * columns, HEIGHT * rows + LEGEND
    body = [f'<rect width="{width}" height="{height}" fill="{PAPER}"/>']
    at = float(LEFT)
    for number, name in enumerate(names):
        body += [_mark(at, 15, number), _text(at + 9, 19, name, anchor="start")]
        at += 28 + 6.4 * len(name)  # 12 pixels of a sans-serif font are some 6.4 wide
    for number, plot in enumerate(plots):
        x, y = WIDTH * (number % columns), LEGEND + HEIGHT * (number // columns)
        body.append(f'<g transform="translate({x},{y})">{"".join(_draw(plot, names))}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _draw(plot: Plot, names: list[str]) -> list[str]:
    points = [point for line in plot.lines.values() for point in line]
    xs, ys = _decades([x for x, _ in points]), _decades([y for _, y in points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - xs[0]) / (xs[1] - xs[0])
        up = (math.log10(y) - ys[0]) / (ys[1] - ys[0])
        return LEFT + across * (right - LEFT), bottom - up * (bottom - TOP)

    parts = [_text(LEFT, TOP - 14, plot.title, anchor="start", fill=INK, weight=600)]
    parts.append(_text((LEFT + right) / 2, HEIGHT - 8, plot.x_label))
    for power in _ticks(xs):
        x, _ = place(10**power, 10 ** ys[0])
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        parts.append(_text(x, bottom + 17, _number(10**power)))
    for power in _ticks(ys):
        _, y = place(10 ** xs[0], 10**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(10**power), anchor="end"))
    for name, line in plot.lines.items():
        number = names.index(name)
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        hue = HUES[number % len(HUES)]
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{hue}" stroke-width="1.5"/>')
        parts += [_mark(*place(*point), number) for point in line]
    return parts


def _decades(values: list[float]) -> tuple[float, float]:
    """Logarithms of the lowest and highest value, with some room, at least half a decade."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.05 * (high - low), (0.5 - (high - low)) / 2)
    return low - room, high + room


def _ticks(bounds: tuple[float, float]) -> list[float]:
    """Powers of ten, and 3 of each where there are few; powers of two where those are few."""
    whole = [float(n) for n in range(math.ceil(bounds[0]), math.floor(bounds[1]) + 1)]
    if len(whole) > 2:
        return whole
    first, last = (round(edge / math.log10(2)) for edge in bounds)
    twos = [n * math.log10(2) for n in range(first, last + 1)]
    return [tick for tick in twos if bounds[0] <= tick <= bounds[1]]


def _number(value: float) -> str:
    """A tick: 0.1, 5, 200, 10 k, 3 M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size * 0.999:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _mark(x: float, y: float, number: int) -> str:
    hue = HUES[number % len(HUES)]
    shapes = (
        f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",
        f"M{x - 3:.1f} {y - 3:.1f}h6v6h-6z",
        f"M{x:.1f} {y - 4:.1f}l4 7h-8z",
        f"M{x:.1f} {y - 4:.1f}l4 4l-4 4l-4 -4z",
        f"M{x - 4:.1f} {y - 1:.1f}h8v2h-8z",
    )
    return f'<path d="{shapes[number % len(shapes)]}" fill="{hue}"/>'


def _text(
    x: float, y: float, words: str, *, anchor: str = "middle", fill: str = MUTED, weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
        f'font-weight="{weight}">{escape(words)}</text>'
    )
