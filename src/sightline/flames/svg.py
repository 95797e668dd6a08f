"""A flame graph as a static SVG: no script, readable in a README, titles on hover."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import polars as pl

from sightline.core.text import make_printable
from sightline.core.units import format_bytes, format_count, format_ns
from sightline.flames.layers import LAYERS
from sightline.flames.names import make_labels
from sightline.flames.palette import is_dark, pick_colour
from sightline.flames.stacks import UNITS, Stacks
from sightline.flames.tree import Tree, build_tree, prune_tree

WIDTH = 1200
ROW = 17
MARGIN = 10
HEAD = 58
CHAR = 6.8  # width of a character at 11 px: Verdana's average, with room for wide ones
SMALLEST_PX = 0.4

_KIND = {layer.name: layer.kind for layer in LAYERS}


def amount(weight: str, value: int) -> str:
    """A value with its unit."""
    unit = UNITS.get(weight, "")
    if unit == "ns":
        return format_ns(value)
    if unit == "bytes":
        return format_bytes(value)
    return f"{format_count(value)} {unit}".rstrip()


def write(
    stacks: Stacks, weight: str, title: str, *, palette: str = "gpu", icicle: bool = False
) -> str:
    """The picture. Nodes narrower than 0.4 px are drawn together as '[n small frames]'."""
    title = make_printable(title)
    whole = build_tree(stacks, weight)
    inner = WIDTH - 2 * MARGIN
    shown = prune_tree(whole, max(1, int(whole.total * SMALLEST_PX / inner)))
    depth = int(shown.nodes.get_column("depth").max() or 0)  # type: ignore[arg-type]
    legend, legend_rows = _legend(shown, palette)
    height = HEAD + (depth + 1) * ROW + 20 + 15 * legend_rows
    grades = stacks.describe_grades(weight)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="Verdana,DejaVu Sans,sans-serif" '
        'font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fdfdfc"/>',
        f'<text x="{MARGIN}" y="22" font-size="15" fill="#222">{escape(title)}</text>',
        f'<text x="{MARGIN}" y="41" fill="#555">{escape(_subtitle(weight, whole, grades))}</text>',
        *_boxes(shown, weight, palette, inner, depth, icicle),
        *legend,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _subtitle(weight: str, whole: Tree, grades: str) -> str:
    what = {
        "gpu_time_ns": "GPU time by what launched it",
        "exposed_ns": "GPU time in which nothing else ran",
        "gpu_idle_ns": "GPU idle time by what the CPU was doing",
        "cpu_time_ns": "CPU wall time",
        "wall_time_ns": "time of threads, waiting or not",
        "samples": "samples",
        "latency_samples": "samples in which nothing was issued",
        "cycles": "cycles of all waves",
        "warp_time_ns": "time of all warps within a kernel",
        "executions": "instructions that waves ran",
        "bytes": "bytes copied and filled",
    }.get(weight, weight)
    text = f"{what}: {amount(weight, whole.total)}"
    return f"{text} · joined: {grades}" if grades else text


def _boxes(
    shown: Tree, weight: str, palette: str, inner: float, depth: int, icicle: bool
) -> Iterator[str]:
    total = shown.total or 1
    boxes = _place_boxes(shown)
    labels = make_labels(boxes.select("layer", "name").iter_rows())
    for node, label in zip(boxes.iter_rows(named=True), labels, strict=True):
        x = MARGIN + node["x"] / total * inner
        width = node["value"] / total * inner
        level = node["depth"] if icicle else depth - node["depth"]
        y = HEAD + level * ROW
        name, layer = node["name"], node["layer"]
        fill = pick_colour(_KIND.get(layer, "run"), name, palette)
        share = 100 * node["value"] / total
        hover = f"{label} ({layer}): {amount(weight, node['value'])}, {share:.2f} %"
        box = (
            f'<g><title>{escape(hover)}</title><rect x="{x:.1f}" y="{y}" '
            f'width="{max(width - 0.3, 0.2):.1f}" height="{ROW - 1}" fill="{fill}" rx="1"/>'
        )
        room = int((width - 4) / CHAR)
        if room >= 3:
            text = label if len(label) <= room else label[: room - 1] + "…"
            ink = "#fff" if is_dark(fill) else "#111"
            box += f'<text x="{x + 3:.1f}" y="{y + 12}" fill="{ink}">{escape(text)}</text>'
        yield box + "</g>"


def _place_boxes(shown: Tree) -> pl.DataFrame:
    """Nodes with name, layer, and x: where they start. Children stand in order of name."""
    nodes = shown.nodes.join(shown.frames, on="frame_id", how="left", maintain_order="left")
    nodes = nodes.with_columns(
        pl.col("name").fill_null("all"), pl.col("layer").fill_null("run")
    ).with_columns(
        offset=pl.col("value").cum_sum().over("parent", order_by=["name", "node"]) - pl.col("value")
    )
    placed = [nodes.filter(pl.col("depth") == 0).with_columns(x=pl.lit(0, pl.Int64))]
    deepest = int(nodes.get_column("depth").max() or 0)  # type: ignore[arg-type]
    for level in range(1, deepest + 1):
        above = placed[-1].select(parent="node", parent_x="x")
        placed.append(
            nodes.filter(pl.col("depth") == level)
            .join(above, on="parent")
            .with_columns(x=pl.col("parent_x") + pl.col("offset"))
            .drop("parent_x")
        )
    return pl.concat(placed)


def _legend(shown: Tree, palette: str) -> tuple[list[str], int]:
    drawn = shown.nodes.join(shown.frames, on="frame_id")
    used = set(drawn.get_column("layer").to_list())
    depth = int(shown.nodes.get_column("depth").max() or 0)  # type: ignore[arg-type]
    top = HEAD + (depth + 1) * ROW + 12
    x, row = float(MARGIN), 0
    parts = []
    for layer in LAYERS:
        if layer.name not in used or layer.side == "root":
            continue
        needed = 30 + len(layer.doc) * CHAR
        if x > MARGIN and x + needed > WIDTH:
            x, row = float(MARGIN), row + 1
        y = top + 15 * row
        fill = pick_colour(layer.kind, "", palette)
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="11" height="11" fill="{fill}"/>'
            f'<text x="{x + 15:.0f}" y="{y + 10}" fill="#555">{escape(layer.doc)}</text>'
        )
        x += needed
    return parts, row + 1
