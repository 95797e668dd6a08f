"""The stacks of a recording that holds them added up, by the names of their frames."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import sightline


def find_weights(path: Path) -> dict[tuple[Any, ...], int]:
    """(weight, frames from the root) to its value."""
    run = sightline.open(str(path))
    names = dict(run.table("frames").select("frame_id", "function").iter_rows())
    stacks = {
        stack: (parent, names[frame])
        for stack, parent, frame in run.table("stacks")
        .select("stack_id", "parent_id", "frame_id")
        .iter_rows()
    }
    found = Counter[tuple[Any, ...]]()
    for row in run.table("stack_weights").iter_rows(named=True):
        frames, stack = [], row["stack_id"]
        while stack is not None:
            stack, name = stacks[stack]
            frames.append(name)
        found[(row["metric"], *reversed(frames))] += row["value"]  # lines of a function add up
    return dict(found)


def add_up_weights(weights: dict[tuple[Any, ...], int]) -> Counter[str]:
    """The sum of each weight."""
    total: Counter[str] = Counter()
    for (weight, *_), value in weights.items():
        total[weight] += value
    return total
