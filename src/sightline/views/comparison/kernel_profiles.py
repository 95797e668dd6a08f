"""Two kernel profiles against each other on a terminal: durations, and what explains them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.views.comparison.comparison import format_change_pct
from sightline.views.terminal.screen import wrap_text

WIDTH, MOST = 80, 200
MAX_PAIRS = 8
# What is shown of each pair, where both reports have it; all else is in --json.
METRICS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory throughput",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "device memory throughput",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
    "dram__bytes_read.sum": "read from device memory",
    "dram__bytes_write.sum": "written to device memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
    "smsp__inst_executed.sum": "instructions executed",
    "launch__registers_per_thread": "registers per thread",
    "launch__waves_per_multiprocessor": "waves",
}
# A metric that differs by less is the same (ours: counters of one kernel vary by so much).
SAME = 0.01


def render_profiles(data: dict[str, Any], width: int = WIDTH) -> Text:
    """The whole screen: what limits it first, then kernel by kernel."""
    width = min(max(width, WIDTH), MOST)
    blocks = [list(_limits(data, width)), *(list(b) for b in _pairs(data, width))]
    blocks.append(list(_rest(data, width)))
    return Text("\n\n").join(Text("\n").join(block) for block in blocks if block)


def _limits(data: dict[str, Any], width: int) -> Iterator[Text]:
    yield Text(f"{format_several(len(data['pairs']), 'kernel')} on both sides", style="bold")
    told = ["each was measured once, so nothing says what is more than noise"]
    devices = [" and ".join(side) or "an unnamed GPU" for side in data["devices"]]
    if devices[0] != devices[1]:
        told.insert(0, f"not the same GPU: {devices[0]} before, {devices[1]} after")
    if data["clocks_locked"][0] != data["clocks_locked"][1]:
        told.insert(0, "clocks were locked on one side only, so durations do not compare")
    for text in told:
        yield from wrap_text(text, "  · ", "    ", width)


def _pairs(data: dict[str, Any], width: int) -> Iterator[Iterator[Text]]:
    names = {pair[key] for pair in data["pairs"] for key in ("name", "after_name")}
    labels = label_kernels(names)
    for pair in data["pairs"][:MAX_PAIRS]:
        yield _pair(pair, labels, width)


def _pair(pair: dict[str, Any], labels: dict[str, str], width: int) -> Iterator[Text]:
    yield Text(fit_text(labels[pair["after_name"]], width), style="bold")
    if pair["name"] != pair["after_name"]:
        yield Text(fit_text(f"  was {labels[pair['name']]}", width), style="dim")
    if pair["before_shape"] != pair["after_shape"]:
        shapes = [_write_shape(pair[f"{side}_shape"]) for side in ("before", "after")]
        yield Text(fit_text(f"  launched as {shapes[0]}, now {shapes[1]}", width))
    room = width - 40
    one, other = pair["before_ns"], pair["after_ns"]
    if one is not None and other is not None:
        change = format_change_pct(100 * (other - one) / one) if one else "-"
        line = f"  {'duration':<{room - 2}}{format_ns(one):>12}{format_ns(other):>12}{change:>10}"
        yield Text(line, style="red" if other > one else "green" if other < one else "")
    by_name = {row["metric"]: row for row in pair["metrics"]}
    shown = 0
    for metric, label in METRICS.items():
        row = by_name.get(metric)
        if row is None or not _differs(row):
            continue
        shown += 1
        values = [_format(row[k], row["unit"]) for k in ("before", "after")]
        change = "-" if row["ratio"] is None else format_change_pct(100 * (row["ratio"] - 1))
        yield Text(f"  {label:<{room - 2}}{values[0]:>12}{values[1]:>12}{change:>10}")
    others = sum(map(_differs, pair["metrics"])) - shown
    if others:
        yield Text(
            f"  {others} more of {format_several(len(pair['metrics']), 'metric')} differ: --json",
            style="dim",
        )


def _differs(row: dict[str, Any]) -> bool:
    if row["before"] == row["after"]:
        return False
    return row["ratio"] is None or row["ratio"] <= 0 or abs(math.log(row["ratio"])) >= SAME


def _write_shape(shape: list[int]) -> str:
    grid, block = ("×".join(map(str, part)) for part in (shape[:3], shape[3:]))
    return f"{grid} blocks of {block}"


def _format(value: float, unit: str | None) -> str:
    if unit in ("%", "pct"):
        return format_pct(value)
    if unit in ("byte", "bytes"):
        return format_bytes(value)
    return format_ns(value) if unit == "ns" else f"{value:,.5g}"


def _rest(data: dict[str, Any], width: int) -> Iterator[Text]:
    more = len(data["pairs"]) - MAX_PAIRS
    if more > 0:
        yield Text(f"{more} more kernels: --json", style="dim")
    for key, told in (("vanished", "only before"), ("appeared", "only after")):
        if data[key]:
            labels = label_kernels(data[key])
            names = ", ".join(dict.fromkeys(labels[name] for name in data[key]))
            yield from wrap_text(f"{told}: {names}", "", "    ", width)
