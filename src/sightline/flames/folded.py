"""Folded stacks, as flamegraph.pl and others read them (the form: core/model/folded_text.py)."""

from __future__ import annotations

from collections.abc import Iterable

from sightline.core.model.folded_text import format_line, parse_frames, split_line
from sightline.flames.layers import SIDE
from sightline.flames.stacks import Stacks, stack_paths


def write(stacks: Stacks, weight: str) -> str:
    """All stacks of a weight. Layers that the suffixes cannot tell apart become one."""
    frames = stacks.frames.sort("frame_id")
    known = [
        (layer, name, SIDE[layer] in ("gpu", "leaf"))
        for layer, name in frames.select("layer", "name").rows()
    ]
    lines: dict[str, int] = {}
    for ids, value in stacks.rows.select("frames", weight).rows():
        if value:
            stack = format_line([known[i] for i in ids], 0)[:-2]
            lines[stack] = lines.get(stack, 0) + value
    return "".join(f"{stack} {value}\n" for stack, value in sorted(lines.items()))


def parse_folded(lines: Iterable[str], weight: str = "samples") -> tuple[Stacks, int]:
    """Stacks from folded lines, and how many lines were none. Blank and '#' lines are no loss."""
    paths = []
    bad = 0
    for line in lines:
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        found = split_line(text)
        if found is None:
            bad += 1
            continue
        paths.append((parse_frames(found[0]), "exact", {weight: found[1]}))
    return stack_paths(paths), bad
