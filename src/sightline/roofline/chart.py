"""The roofline as a drawing: lines and points on logarithmic axes, before any format.

Made from the rows of the analysis `roofline`. Ceilings are drawn as the kernel with the longest
time has them; each kernel's own shares are computed with its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sightline.core.kernel_labels import label_kernels, shorten_kernel_name
from sightline.core.units import format_ns, format_pct, format_several

Row = dict[str, Any]
_LEVELS = (("dram", "DRAM"), ("l2", "L2"), ("l1", "L1"))


# NVIDIA's ncu calls a unit a kernel's limit from here on (SpeedOfLight.py: 60 %).
_NEAR_PCT = 60.0
# Launches that differ by less in both directions are one point: markers are wider than that (ours).
_ALIKE = 0.1


@dataclass(frozen=True)
class Roof:
    """A ceiling: flat (FLOP/s) or slanted (bytes/s)."""

    kind: str  # compute or memory
    basis: str  # measured, datasheet or achievable
    height: float
    label: str
    group: str  # precision, or dram, l2, l1


@dataclass(frozen=True)
class Point:
    """A kernel at one precision."""

    number: int
    name: str
    precision: str
    x: float  # FLOP/byte of device memory
    y: float  # FLOP/s
    roof: float | None  # the lowest ceiling above it
    legend: tuple[str, ...]
    weight: float  # share of the time of all points, 0 to 1
    caches: tuple[tuple[str, float], ...] = ()  # l2 and l1: FLOP per byte of that level


@dataclass
class Chart:
    """Everything that is drawn."""

    title: str
    subtitle: tuple[str, ...]
    roofs: list[Roof]
    points: list[Point]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    more: int = 0  # points without a line in the legend
    left_out: list[str] = field(default_factory=list)  # why kernels are not drawn


def make_chart(rows: Iterable[Row], device: str | None, top: int = 12) -> Chart | None:
    """A chart of these rows, the longest kernels first; None where none can be placed.

    Launches that are alike are one point: the longest of them, with the time of all.
    """
    every = list(rows)
    placed = [r for r in every if r["flop_per_s"] and r["dram_intensity"]]
    placed.sort(key=_get_time, reverse=True)
    if not placed:
        return None
    total = sum(map(_get_time, placed)) or 1
    labels = label_kernels(r["name"] for r in placed if r["name"])
    groups = sorted(_group_alike(placed), key=lambda g: sum(map(_get_time, g)), reverse=True)
    points = [
        _point(n, group, labels.get(group[0]["name"], "unnamed"), total)
        for n, group in enumerate(groups, 1)
    ]
    roofs = _roofs(placed)
    kernels = len({r["kernel_id"] for r in placed})
    left = []
    missing = len({r["kernel_id"] for r in every}) - kernels
    if missing:
        left.append(
            f"{format_several(missing, 'kernel')} without counted arithmetic or traffic not drawn"
        )
    return Chart(
        title=f"Roofline · {device or 'unknown device'} · {format_several(kernels, 'kernel')}",
        subtitle=(
            "Ceilings: solid at the measured clock, dashed as in the datasheet, dotted the best "
            "that a benchmark reached.",
            "Disc: FLOP per byte of device memory, its area the share of the time. Ring: per byte "
            "of L2, square: of L1.",
        ),
        roofs=roofs,
        points=points[:200],
        x_range=_range(
            [x for p in points for x in (p.x, *(c for _, c in p.caches))] + _ridges(roofs), 8.0, 4.0
        ),
        y_range=_range(
            [p.y for p in points] + [r.height for r in roofs if r.kind == "compute"], 8.0, 1.6
        ),
        more=max(0, len(points) - top),
        left_out=left,
    )


def _get_time(row: Row) -> int:
    return row["duration_ns"] or 0


def _group_alike(rows: list[Row]) -> list[list[Row]]:
    """Launches of one kernel at one precision whose points would cover each other.

    They are bound by the same, and within a tenth of the first one in both directions.
    """
    groups: dict[tuple[Any, ...], list[list[Row]]] = {}
    for row in rows:
        key = (row["name"], row["precision"], row["roof"], _name_bound(row))
        known = groups.setdefault(key, [])
        near = (group for group in known if _is_near(group[0], row))
        group = next(near, None) if row["name"] else None
        if group is None:
            known.append([row])
        else:
            group.append(row)
    return [group for known in groups.values() for group in known]


def _is_near(first: Row, row: Row) -> bool:
    return all(
        abs(row[name] - first[name]) <= _ALIKE * first[name]
        for name in ("flop_per_s", "dram_intensity")
    )


def _name_bound(row: Row) -> str:
    """What bounds a kernel; where that is memory, and not the one below whose roof it is, which.

    Of all memory units the busiest counts (SpeedOfLight's memory throughput). One that is far
    below the roof of device memory is bound by a cache, which may have no roof on the chart.
    """
    bound: str = row["bound"] or ""
    rate, peak = row.get("dram_bytes_per_s"), row.get("dram_peak_bytes_per_s")
    is_cache = rate is not None and peak and 100 * rate < _NEAR_PCT * peak
    return "caches" if bound == "memory" and row["roof"] == "compute" and is_cache else bound


def _point(number: int, alike: list[Row], name: str, total: int) -> Point:
    """The point of launches that are alike, of which the first stands for all; `total` in ns."""
    r, time = alike[0], sum(map(_get_time, alike))
    name = name if len(alike) == 1 else f"{len(alike)} × {name}"
    legend = (
        name,
        r["precision"].replace("_", " "),
        format_ns(None if r["duration_ns"] is None else time),
        f"{_si(r['flop_per_s'])}FLOP/s",
        f"{r['dram_intensity']:.3g} FLOP/B",
        f"{format_pct(r['of_roof_pct'])} of {r['roof']}" if r["roof"] else "no roof known",
        _name_bound(r),
    )
    # Beyond this nothing of the work comes from that level: a marker would only stretch the axis.
    caches = tuple(
        (level, r[f"{level}_intensity"])
        for level in ("l2", "l1")
        if r[f"{level}_intensity"] and r[f"{level}_intensity"] < 10 * r["dram_intensity"]
    )
    return Point(
        number,
        name,
        r["precision"],
        r["dram_intensity"],
        r["flop_per_s"],
        r["roof_flop_per_s"],
        legend,
        time / total,
        caches,
    )


def _roofs(rows: list[Row]) -> list[Roof]:
    """Each precision's and level's ceilings, from the first row that has them."""
    found: dict[tuple[str, str], Roof] = {}
    for r in rows:
        precision = r["precision"]
        word = precision.replace("_", " ")
        for basis, column in (
            ("measured", "peak_flop_per_s"),
            ("datasheet", "datasheet_flop_per_s"),
            ("achievable", "achievable_flop_per_s"),
        ):
            _add(found, "compute", basis, r[column], f"{word} {{}}FLOP/s", precision)
        for level, name in _LEVELS:
            _add(
                found,
                "memory",
                "measured",
                r[f"{level}_peak_bytes_per_s"],
                f"{name} {{}}B/s",
                level,
            )
        _add(found, "memory", "datasheet", r["datasheet_dram_bytes_per_s"], "DRAM {}B/s", "dram")
    return list(found.values())


def _add(
    found: dict[tuple[str, str], Roof],
    kind: str,
    basis: str,
    height: float | None,
    label: str,
    group: str,
) -> None:
    # The table's peak stands for both where no clock was measured: drawn once, as measured.
    if height and (group, basis) not in found:
        same = found.get((group, "measured"))
        if same is None or abs(same.height / height - 1) > 0.01:
            found[group, basis] = Roof(kind, basis, height, label.format(_si(height)), group)


def _ridges(roofs: list[Roof]) -> list[float]:
    """Intensities at which a memory roof meets a compute roof."""
    flat = [r.height for r in roofs if r.kind == "compute"]
    slanted = [r.height for r in roofs if r.kind == "memory" and r.group == "dram"]
    return [f / s for f in flat for s in slanted]


def _range(values: list[float], below: float, above: float) -> tuple[float, float]:
    """Bounds that hold all values and these margins, at half decades."""
    low, high = min(values) / below, max(values) * above
    return 10 ** (math.floor(2 * math.log10(low)) / 2), 10 ** (math.ceil(2 * math.log10(high)) / 2)


def shorten_name(name: str | None) -> str:
    """A kernel's label where it stands alone (core/kernel_labels.py)."""
    if not name:
        return "unnamed"
    return shorten_kernel_name(name)


def _si(value: float) -> str:
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale * 0.9995:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "


def list_decades(bounds: tuple[float, float]) -> list[int]:
    """The powers of ten inside the bounds."""
    low, high = math.log10(bounds[0]), math.log10(bounds[1])
    return list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))


def format_tick(power: int) -> str:
    """A power of ten as a person writes it: 0.1, 1, 100, 10 k, 1 T."""
    if -3 <= power < 3:
        return f"{10.0**power:g}"
    index, rest = divmod(power, 3)
    prefixes = {1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}
    return f"{10**rest} {prefixes[index]}" if index in prefixes else f"1e{power}"
