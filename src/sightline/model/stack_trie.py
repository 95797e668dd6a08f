"""Stacks as a trie: the tables `frames` and `stacks` from paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl


class Frame(NamedTuple):
    """One frame. `layer` is one of the layers of docs/flames.md, such as python, native, kernel."""

    layer: str
    function: str
    file: str | None = None
    line: int | None = None
    module: str | None = None


@dataclass
class StackTrie:
    """Collects stacks; equal prefixes are one node. Ids count from 0."""

    _frames: dict[Frame, int] = field(default_factory=dict)
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, path: Iterable[Frame]) -> int | None:
        """The id of a stack, given root first; None for an empty one."""
        node = -1
        for frame in path:
            number = self._frames.setdefault(frame, len(self._frames))
            node = self._nodes.setdefault((node, number), len(self._nodes))
        return None if node < 0 else node

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables `frames` and `stacks`."""
        frames = pl.DataFrame(
            [(i, *frame) for frame, i in self._frames.items()],
            schema={
                "frame_id": pl.Int64,
                "layer": pl.String,
                "function": pl.String,
                "file": pl.String,
                "line": pl.Int64,
                "module": pl.String,
            },
            orient="row",
        )
        depth: list[int] = []
        for parent, _ in self._nodes:
            depth.append(0 if parent < 0 else depth[parent] + 1)
        stacks = pl.DataFrame(
            {
                "stack_id": range(len(self._nodes)),
                "parent_id": [None if parent < 0 else parent for parent, _ in self._nodes],
                "frame_id": [frame for _, frame in self._nodes],
                "depth": depth,
            },
            schema={
                "stack_id": pl.Int64,
                "parent_id": pl.Int64,
                "frame_id": pl.Int64,
                "depth": pl.Int64,
            },
        )
        return {"frames": frames, "stacks": stacks}


def make_weights(rows: Sequence[tuple[int | None, str, int, str]]) -> pl.DataFrame:
    """The table `stack_weights` from (stack_id, metric, value, match), equal keys added up."""
    table = pl.DataFrame(
        rows,
        schema={"stack_id": pl.Int64, "metric": pl.String, "value": pl.Int64, "match": pl.String},
        orient="row",
    )
    key = ["stack_id", "metric", "match"]
    return (
        table.drop_nulls("stack_id").group_by(key, maintain_order=True).agg(pl.col("value").sum())
    )
