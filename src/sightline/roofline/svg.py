"""The chart as SVG: plain text, no dependency, readable without colour."""

from __future__ import annotations

import math
import re
from html import escape

from sightline.roofline.chart import Chart, Point, Roof, format_tick, list_decades

_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 960, 74, 200, 92, 430
_LINE = 21
_INK, _MUTED, _GRID, _PAPER = "#1f2933", "#66727f", "#e6eaee", "#ffffff"
_MEMORY = {"dram": "#3e4c59", "l2": "#8795a3", "l1": "#b1bcc7"}
# Muted hues that differ in lightness too.
_HUES = {
    "fp64": "#6b4c9a",
    "fp32": "#2f6f9f",
    "fp16": "#3a8f85",
    "fp64_tensor": "#8a3f7c",
    "tf32_tensor": "#a8792a",
    "fp16_tensor": "#b5562b",
    "bf16_tensor": "#b5562b",
    "fp8_tensor": "#9c2f3f",
    "int8_tensor": "#5f7f3a",
    "fp4_tensor": "#7a1f4f",
}
_DASH = {"measured": "", "datasheet": "7 5", "achievable": "2 4"}
# Where each column of the legend starts.
_COLUMNS = (0, 26, 318, 404, 478, 588, 690, 818)
_HEADS = ("", "kernel", "precision", "time", "rate", "intensity", "of lowest roof", "bound")


# The same on dark paper: ink and paper change places, hues are lighter.
_DARK = {
    _INK: "#e6e9ec",
    _MUTED: "#a2abb4",
    _GRID: "#2a3036",
    _PAPER: "#1b1f23",
    "#3e4c59": "#c3ccd5",
    "#8795a3": "#8795a3",
    "#b1bcc7": "#5f6a75",
    "#6b4c9a": "#a98ad8",
    "#2f6f9f": "#6fb1e0",
    "#3a8f85": "#62c4b8",
    "#8a3f7c": "#d183c2",
    "#a8792a": "#d9ab5c",
    "#b5562b": "#ee8f63",
    "#9c2f3f": "#e87487",
    "#5f7f3a": "#a3c978",
    "#7a1f4f": "#d9709f",
}
_COLOUR = re.compile(r'(?<= fill=")#[0-9a-f]{6}(?=")|(?<= stroke=")#[0-9a-f]{6}(?=")')


def draw_svg(chart: Chart, top: int = 12, *, dark: bool = False) -> str:
    """The whole picture as an SVG document, on white or on dark paper."""
    drawn = _draw(chart, top)
    return _COLOUR.sub(lambda hue: _DARK.get(hue[0], hue[0]), drawn) if dark else drawn


def _draw(chart: Chart, top: int) -> str:
    listed = chart.points[:top]
    notes = [f"… and {chart.more} more"] * (chart.more > 0) + chart.left_out
    height = _TOP + _PLOT + 64 + _LINE * (len(listed) + len(notes) + 1) + 12
    canvas = _Canvas(chart)
    body = [
        f'<rect width="{_WIDTH}" height="{height}" fill="{_PAPER}"/>',
        _text(_LEFT, 30, chart.title, size=18, weight=600),
        *(_text(_LEFT, 51 + 17 * n, s, size=12, fill=_MUTED) for n, s in enumerate(chart.subtitle)),
        *canvas.grid(),
        *(part for roof in sorted(chart.roofs, key=_order) for part in canvas.roof(roof)),
        *canvas.labels(),
        *(part for p in reversed(chart.points) for part in canvas.drop(p)),
        *(part for p in reversed(chart.points) for part in canvas.point(p, p in listed)),
    ]
    y = _TOP + _PLOT + 68
    body += [
        _text(_LEFT + at, y, head, size=12, fill=_MUTED)
        for at, head in zip(_COLUMNS, _HEADS, strict=True)
    ]
    y += _LINE
    for p in listed:
        body += _legend(p, y)
        y += _LINE
    for note in notes:
        body.append(_text(_LEFT + 26, y, note, size=12, fill=_MUTED))
        y += _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" '
        f'role="img" aria-label="{escape(chart.title)}">\n' + "\n".join(body) + "\n</svg>\n"
    )


def _order(roof: Roof) -> tuple[int, int]:
    """Back to front: caches, then device memory, then compute."""
    return (roof.kind == "compute", {"l1": 0, "l2": 1}.get(roof.group, 2))


class _Canvas:
    """From FLOP/byte and FLOP/s to pixels."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.x0, self.x1 = (math.log10(v) for v in chart.x_range)
        self.y0, self.y1 = (math.log10(v) for v in chart.y_range)
        self.right, self.bottom = _WIDTH - _RIGHT, _TOP + _PLOT
        self.highest = max(
            (r.height for r in chart.roofs if r.kind == "compute"), default=chart.y_range[1]
        )

    def x(self, value: float) -> float:
        return _LEFT + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (self.right - _LEFT)

    def y(self, value: float) -> float:
        return self.bottom - (math.log10(value) - self.y0) / (self.y1 - self.y0) * _PLOT

    def grid(self) -> list[str]:
        """Decades with their numbers, and the axes' titles."""
        parts = []
        for power in list_decades(self.chart.x_range):
            x = self.x(10.0**power)
            parts += [
                _path(f"M{x:.1f} {_TOP}V{self.bottom}", _GRID, 1),
                _text(
                    x, self.bottom + 18, format_tick(power), size=12, fill=_MUTED, anchor="middle"
                ),
            ]
        for power in list_decades(self.chart.y_range):
            y = self.y(10.0**power)
            parts += [
                _path(f"M{_LEFT} {y:.1f}H{self.right}", _GRID, 1),
                _text(_LEFT - 8, y + 4, format_tick(power), size=12, fill=_MUTED, anchor="end"),
            ]
        middle = (_LEFT + self.right) / 2
        return [
            *parts,
            _text(
                middle,
                self.bottom + 38,
                "arithmetic intensity, FLOP per byte",
                size=12,
                fill=_MUTED,
                anchor="middle",
            ),
            f'<g transform="translate(20 {_TOP + _PLOT / 2}) rotate(-90)">'
            + _text(0, 0, "performance, FLOP/s", size=12, fill=_MUTED, anchor="middle")
            + "</g>",
        ]

    def roof(self, roof: Roof) -> list[str]:
        return self._flat(roof) if roof.kind == "compute" else self._slanted(roof)

    def _flat(self, roof: Roof) -> list[str]:
        """A compute ceiling, from where device memory can feed it."""
        colour = _HUES.get(roof.group, _INK)
        widest = max(
            (r.height for r in self.chart.roofs if r.kind == "memory"), default=None
        )  # the fastest memory reaches it first
        start = self.chart.x_range[0] if widest is None else roof.height / widest
        x, y = max(_LEFT, self.x(start)), self.y(roof.height)
        width = 2.2 if roof.basis == "measured" else 1.4
        return [_path(f"M{x:.1f} {y:.1f}H{self.right}", colour, width, _DASH[roof.basis])]

    def labels(self) -> list[str]:
        """The compute ceilings' names, right of the plot, moved apart where they would touch."""
        flat = sorted((r for r in self.chart.roofs if r.kind == "compute"), key=lambda r: -r.height)
        places = [self.y(r.height) for r in flat]
        for n in range(1, len(places)):
            places[n] = max(places[n], places[n - 1] + 16)
        over = places[-1] - self.bottom if places else 0
        shift = max(
            0.0, over, (sum(places) - sum(self.y(r.height) for r in flat)) / max(1, len(flat))
        )
        parts = []
        for roof, place in zip(flat, places, strict=True):
            y, at, colour = self.y(roof.height), place - shift, _HUES.get(roof.group, _INK)
            parts += [
                _path(
                    f"M{self.right} {y:.1f}L{self.right + 12} {at:.1f}",
                    colour,
                    1,
                    _DASH[roof.basis],
                ),
                _text(
                    self.right + 16,
                    at + 4,
                    roof.label,
                    size=12,
                    fill=colour,
                    weight=600 if roof.basis == "measured" else 400,
                ),
            ]
        return parts

    def _slanted(self, roof: Roof) -> list[str]:
        """A memory ceiling, up to the highest compute ceiling."""
        low, high = self.chart.x_range
        start = max(low, self.chart.y_range[0] / roof.height)
        stop = min(high, self.highest / roof.height)
        if stop <= start:
            return []
        x, y, x2, y2 = (
            self.x(start),
            self.y(start * roof.height),
            self.x(stop),
            self.y(stop * roof.height),
        )
        colour = _MEMORY[roof.group]
        width = 2.2 if roof.group == "dram" and roof.basis == "measured" else 1.4
        parts = [_path(f"M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}", colour, width, _DASH[roof.basis])]
        length = math.hypot(x2 - x, y2 - y)
        if roof.basis == "measured" and length > 95:
            angle = math.degrees(math.atan2(y2 - y, x2 - x))
            # Near the lower left, where kernels are rare.
            share = max(0.16, 62 / length)
            cx, cy = x + share * (x2 - x), y + share * (y2 - y)
            parts.append(
                f'<g transform="translate({cx:.1f} {cy:.1f}) rotate({angle:.1f})">'
                + _text(0, -6, roof.label, size=12, fill=colour, anchor="middle", halo=True)
                + "</g>"
            )
        return parts

    def drop(self, p: Point) -> list[str]:
        """How far it is from a kernel to its roof, and where it stands by cache traffic."""
        colour = _HUES.get(p.precision, _INK)
        y = self.y(p.y)
        marks = []
        for level, intensity in p.caches:
            x = self.x(intensity)
            shape = (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"'
                if level == "l2"
                else f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'
            )
            marks.append(f'{shape} fill="{_PAPER}" stroke="{colour}" stroke-width="1.4"/>')
        if p.roof is None or p.roof <= p.y:
            return marks
        return [
            *marks,
            _path(
                f"M{self.x(p.x):.1f} {y:.1f}V{self.y(min(p.roof, self.chart.y_range[1])):.1f}",
                colour,
                1,
                "1 3",
            ),
        ]

    def point(self, p: Point, numbered: bool) -> list[str]:
        """A kernel: the area of its disc is its share of the time."""
        x, y = self.x(p.x), self.y(p.y)
        radius = 9 + 9 * math.sqrt(p.weight) if numbered else 4
        colour = _HUES.get(p.precision, _INK)
        parts = [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" '
            f'stroke="{_PAPER}" stroke-width="1.5">'
            f"<title>{escape(' · '.join(p.legend))}</title></circle>"
        ]
        if numbered:
            parts.append(
                _text(x, y + 4, str(p.number), size=12, fill=_PAPER, anchor="middle", weight=600)
            )
        return parts


def _legend(p: Point, y: float) -> list[str]:
    cells = (str(p.number), *p.legend)
    colour = _HUES.get(p.precision, _INK)
    return [
        _text(
            _LEFT + at,
            y,
            _clip(cell, 38 if n == 1 else 30),
            size=12,
            fill=colour if n == 0 else _INK,
            weight=600 if n == 0 else 400,
        )
        for n, (at, cell) in enumerate(zip(_COLUMNS, cells, strict=True))
    ]


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _path(d: str, colour: str, width: float, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    fill: str = _INK,
    anchor: str = "start",
    weight: int = 400,
    halo: bool = False,
) -> str:
    back = f' stroke="{_PAPER}" stroke-width="4" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}" text-anchor="{anchor}"{back}>{escape(text)}</text>'
    )
