"""A flame graph as an indented tree of text, of bounded length."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.units import format_count, format_ns
from sightline.doors.mcp.texts import MARK, MOST_CHARACTERS, clean
from sightline.flames.stacks import UNITS, Stacks
from sightline.flames.tree import build_tree

_MOST_NODES, _MOST_INDENT, _NAME = 100_000, 24, 80
Node = dict[str, Any]


def write_tree(stacks: Stacks, weight: str, under: str | None, least_pct: float) -> str:
    """The largest children first, depth first; `under` keeps what lies below frames of that text.

    Frames of less than `least_pct` % of the whole are left out, and so is what has no room.
    """
    tree = build_tree(stacks, weight)
    least = max(least_pct, 0.0) / 100 * max(tree.total, 1)
    large = tree.nodes.filter(pl.col("value") >= least).sort(
        "value", "node", descending=[True, False]
    )
    nodes = large.head(_MOST_NODES).join(tree.frames, on="frame_id", how="left").to_dicts()
    children: dict[int | None, list[Node]] = {}
    for node in sorted(nodes, key=lambda n: (-n["value"], n["node"])):
        children.setdefault(node["parent"], []).append(node)
    roots = children.get(0, []) if under is None else _find(children, under)
    is_time = UNITS[weight] == "ns"
    whole = format_ns(tree.total) if is_time else f"{format_count(tree.total)} {UNITS[weight]}"
    lines = [f"{weight}: {whole} in all. Frames: {MARK}"]
    room = MOST_CHARACTERS - len(lines[0]) - 80
    waiting = [(node, 0) for node in reversed(roots)]
    left = 0
    while waiting:
        node, depth = waiting.pop()
        line = _write_line(node, depth, tree.total, is_time)
        room -= len(line) + 1
        if room < 0:
            left += 1 + len(waiting)
            break
        lines.append(line)
        waiting += [(child, depth + 1) for child in reversed(children.get(node["node"], []))]
    if not roots:
        lines.append("no frame contains that text" if under else "no frame is so large")
    if left:
        lines.append(f"({left} frames or more left out: ask with under=, or a larger least_pct)")
    return "\n".join(lines)


def _write_line(node: Node, depth: int, total: int, is_time: bool) -> str:
    amount = format_ns(node["value"]) if is_time else format_count(node["value"])
    share = 100 * node["value"] / max(total, 1)
    indent = " " * min(depth, _MOST_INDENT)
    return f"{indent}{share:.1f} % {amount} [{node['layer']}] {clean(node['name'], _NAME)}"


def _find(children: dict[int | None, list[Node]], text: str) -> list[Node]:
    """The topmost frames whose name contains a text, the largest first."""
    found, waiting = [], list(children.get(0, []))
    while waiting:
        node = waiting.pop()
        if text in (node["name"] or ""):
            found.append(node)
        else:
            waiting += children.get(node["node"], [])
    return sorted(found, key=lambda n: (-n["value"], n["node"]))
