"""Plots as SVG: a metric over time, the radar, the roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sightline.views.cluster.frame import show

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 190, 58, 10, 10, 24
_POINTS = 600  # as many as ClusterCockpit's pages draw
HUES = 8
_TOPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_DAY_S = 86_400
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800,
    3_600, 7_200, 10_800, 14_400, 21_600, 43_200, _DAY_S, 2 * _DAY_S,
)  # fmt: skip


def draw_lines(
    title: str,
    lines: Sequence[tuple[str, np.ndarray]],
    seconds: float,
    unit: str,
    limits: Sequence[tuple[str, float]] = (),
    band: tuple[np.ndarray, np.ndarray] | None = None,
) -> str:
    """Values on an even grid over `seconds`, NaN where there is none: a line each, named.

    `limits` are levels with a name; `band` the least and the largest around a mean.
    """
    every = [values for _, values in lines] + (list(band) if band else [])
    known = [float(np.nanmax(v)) for v in every if v.size and not np.isnan(v).all()]
    if not known:
        return ""
    most = max([*known, *(v for _, v in limits if v <= 4 * max(known, default=0))])
    top = 100.0 if unit == "%" and 50 < most <= 100 else round_up(most)
    inner, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(value: float) -> float:
        return _TOP + tall * (1 - min(max(value / top, 0.0), 1.02))

    body = []
    for part in (0.0, 0.5, 1.0):
        y = at(top * part)
        body.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(top * part)}</text>'
        )
    for second in list_moments(seconds):
        part = second / seconds
        anchor = "start" if part == 0 else "end" if part > 0.95 else "middle"
        body.append(
            f'<text x="{_LEFT + inner * part:.0f}" y="{_HEIGHT - 7}" text-anchor="{anchor}">'
            f"{_clock(second)}</text>"
        )
    for name, value in limits:
        if value <= top:
            # Over its line, or where the plot ends there, below it.
            name_y = at(value) - 3 if at(value) > _TOP + 8 else at(value) + 11
            kind = "bad" if name in ("alert", "caution") else "limit"
            body.append(
                f'<path class="{kind}" d="M{_LEFT} {at(value):.1f}H{_WIDTH - _RIGHT}"/>'
                f'<text x="{_WIDTH - _RIGHT - 3}" y="{name_y:.1f}" text-anchor="end">'
                f"{show(name)}</text>"
            )
    if band is not None:
        low, high = (thin(values) for values in band)
        body.append(_draw_band(low, high, inner, at))
    for n, (name, values) in enumerate(lines):
        path = _draw_path(thin(values), inner, at)
        body.append(
            f'<path class="series hue-{n % HUES}" d="{path}"><title>{show(name)}</title></path>'
        )
    told = f"{title} over {_clock(seconds)}, up to {_short(max(known))} {unit}"
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{show(told)}">{"".join(body)}</svg>'
    )


def round_up(value: float) -> float:
    """The next number that an axis may end at, and whose half is as short; 1 of nothing."""
    if not value > 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return unit * next(step for step in _TOPS if step * unit >= value * (1 - 1e-12))


def list_moments(seconds: float) -> list[float]:
    """0 and full seconds, minutes, hours or days up to a length: four steps of it at most."""
    if not seconds > 0:
        return []
    step = next((step for step in _STEPS_S if seconds / step <= 4.5), 0.0)
    if not step:  # weeks
        step = _DAY_S * math.ceil(seconds / 4 / _DAY_S)
    return [n * step for n in range(math.floor(seconds / step * (1 + 1e-9)) + 1)]


def thin(values: np.ndarray) -> np.ndarray:
    """Means of equal slices, at most 600; NaN where a slice has no value."""
    if len(values) <= _POINTS:
        return values
    slices = np.array_split(values, _POINTS)
    return np.array([np.nan if np.isnan(s).all() else np.nanmean(s) for s in slices])


def _draw_path(values: np.ndarray, inner: float, at) -> str:  # type: ignore[no-untyped-def]
    """A line with a break where values are missing."""
    step = inner / max(len(values) - 1, 1)
    path, pen = [], "M"
    for n, value in enumerate(values.tolist()):
        if math.isnan(value):
            pen = "M"
            continue
        path.append(f"{pen}{_LEFT + step * n:.1f} {at(value):.1f}")
        pen = "L"
    if len(values) == 1 and path:
        path.append(f"h{inner}")
    return "".join(path)


def _draw_band(low: np.ndarray, high: np.ndarray, inner: float, at) -> str:  # type: ignore[no-untyped-def]
    step = inner / max(len(low) - 1, 1)
    places = [n for n in range(len(low)) if not (math.isnan(low[n]) or math.isnan(high[n]))]
    if len(places) < 2:
        return ""
    there = [f"{_LEFT + step * n:.1f} {at(high[n]):.1f}" for n in places]
    back = [f"{_LEFT + step * n:.1f} {at(low[n]):.1f}" for n in reversed(places)]
    return f'<path class="area hue-0" d="M{"L".join([*there, *back])}Z"/>'


def draw_radar(axes: Sequence[tuple[str, float | None]]) -> str:
    """Shares, 0 to 1, on axes with names; None where one is not known."""
    size, radius = 300, 96.0
    middle = size / 2

    def at(n: int, share: float) -> tuple[float, float]:
        angle = 2 * math.pi * n / len(axes) - math.pi / 2
        return middle + radius * share * math.cos(angle), middle + radius * share * math.sin(angle)

    body = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        places = " ".join("{:.1f},{:.1f}".format(*at(n, ring)) for n in range(len(axes)))
        body.append(f'<polygon class="grid" points="{places}"/>')
    for n, (name, share) in enumerate(axes):
        x, y = at(n, 1.0)
        body.append(f'<path class="grid" d="M{middle} {middle}L{x:.1f} {y:.1f}"/>')
        tx, ty = at(n, 1.16)
        anchor = "middle" if abs(tx - middle) < 12 else "start" if tx > middle else "end"
        value = "not known" if share is None else f"{100 * share:.0f} %"
        body.append(
            f'<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="{anchor}">{show(name)}'
            f'<tspan x="{tx:.1f}" dy="13">{value}</tspan></text>'
        )
    known = [(n, min(max(s, 0.0), 1.0)) for n, (_, s) in enumerate(axes) if s is not None]
    if known:
        places = " ".join("{:.1f},{:.1f}".format(*at(n, share)) for n, share in known)
        body.append(f'<polygon class="area hue-0" points="{places}"/>')
        body.append(f'<polygon class="series hue-0" fill="none" points="{places}"/>')
        body += [
            '<circle class="hue-0" cx="{:.1f}" cy="{:.1f}" r="3"/>'.format(*at(n, share))
            for n, share in known
        ]
    told = ", ".join(
        f"{name} {'not known' if share is None else f'{100 * share:.0f} %'}" for name, share in axes
    )
    return (
        f'<svg class="plot radar" viewBox="-70 0 {size + 140} {size}" role="img" '
        f'aria-label="{show(told)}">{"".join(body)}</svg>'
    )


def draw_roofline(
    points: Sequence[tuple[float, float]],
    peak_flops: float | None,
    peak_bandwidth: float | None,
    told: str = "{count} points: FLOP/s over FLOP per byte, up to {most}FLOP/s",
) -> str:
    """FLOP/s over FLOP per byte, both axes logarithmic; ceilings where they are known.

    `points` are (intensity in FLOP/byte, rate in FLOP/s), all above 0. `told` says it in words.
    """
    if not points:
        return ""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    ridge = peak_flops / peak_bandwidth if peak_flops and peak_bandwidth else None
    low_x = math.floor(math.log10(min([*xs, *([ridge] if ridge else [])]))) - 0.3
    high_x = math.ceil(math.log10(max([*xs, *([ridge] if ridge else [])]))) + 0.3
    high_y = math.ceil(math.log10(max([*ys, *([peak_flops] if peak_flops else [])]))) + 0.1
    low_y = max(math.floor(math.log10(min(ys))), high_y - 5)
    width, height = _WIDTH, 300
    inner, tall = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + inner * (math.log10(x) - low_x) / (high_x - low_x),
            _TOP + tall * (1 - (math.log10(y) - low_y) / (high_y - low_y)),
        )

    body = []
    for power in range(math.ceil(low_y), math.floor(high_y) + 1):
        _, y = place(1, 10.0**power)
        body.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>'
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(10.0**power)}</text>'
        )
    for power in range(math.ceil(low_x), math.floor(high_x) + 1):
        x, _ = place(10.0**power, 10.0**high_y)
        body.append(
            f'<path class="grid" d="M{x:.1f} {_TOP}V{height - _BOTTOM}"/>'
            f'<text x="{x:.1f}" y="{height - 7}" text-anchor="middle">{10.0**power:g}</text>'
        )
    if peak_flops and peak_bandwidth:
        start = max(10**low_x, 10**low_y / peak_bandwidth)
        first, knee = place(start, start * peak_bandwidth), place(ridge or 1, peak_flops)
        end = place(10**high_x, peak_flops)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (first, knee, end))
        body.append(f'<path class="series hue-7" d="M{path}"/>')
    for intensity, rate in points:
        x, y = place(intensity, max(rate, 10**low_y))
        body.append(f'<circle class="dot hue-0" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>')
    told = told.format(count=len(points), most=_short(max(ys)))
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{show(told)}">{"".join(body)}</svg>'
    )


def _short(value: float) -> str:
    """'1.5 G', '250', '0.02'."""
    size = abs(value)
    for limit, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            per = 1e3 if letter == "k" else limit
            return f"{value / per:.3g} {letter}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _clock(seconds: float) -> str:
    """'0:30' of hours and minutes; seconds below ten minutes."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"
