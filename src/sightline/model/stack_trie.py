"""Stacks as a trie: the tables `frames` and `stacks` from paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from sightline.model.declare import Quality
from sightline.text import replace_surrogates
from sightline.units import INT64_MAX

# Python ends a program at 1000 (sys.getrecursionlimit), perf records 127 (perf_event_max_stack).
# What is deeper is a mistake or an attack, and costs its square wherever whole paths are held.
MAX_DEPTH = 1_024


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
    shortened: int = 0  # stacks whose middle was left out

    def add(self, path: Iterable[Frame]) -> int | None:
        """The id of a stack, given root first; None for an empty one.

        Of one deeper than MAX_DEPTH the middle is left out, and one frame says so.
        """
        node = -1
        frames = list(path)
        if len(frames) > MAX_DEPTH:
            half = MAX_DEPTH // 2
            left_out = Frame(frames[half].layer, "[frames left out]")
            frames = [*frames[:half], left_out, *frames[1 - half :]]
            self.shortened += 1
        for frame in frames:
            number = self._frames.setdefault(frame, len(self._frames))
            node = self._nodes.setdefault((node, number), len(self._nodes))
        return None if node < 0 else node

    def number(self, frame: Frame) -> int:
        """A frame's number, for stacks that are given by numbers."""
        return self._frames.setdefault(frame, len(self._frames))

    def add_numbers(self, path: Sequence[int], parent: int | None = None) -> int | None:
        """The id of a stack of numbered frames, root first; of one that continues its parent.

        Where the path is deeper than MAX_DEPTH its middle is left out, as `add` does.
        """
        if len(path) > MAX_DEPTH:
            frames = list(self._frames)
            return self.add(frames[number] for number in path)
        nodes = self._nodes
        node = -1 if parent is None else parent
        for number in path:
            node = nodes.setdefault((node, number), len(nodes))
        return None if node < 0 else node

    def add_below(self, parent: int | None, *frames: Frame) -> int | None:
        """The id of the stack that continues another one by these frames; of no depth but a few."""
        node = -1 if parent is None else parent
        for frame in frames:
            number = self._frames.setdefault(frame, len(self._frames))
            node = self._nodes.setdefault((node, number), len(self._nodes))
        return None if node < 0 else node

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables `frames` and `stacks`."""
        frames = pl.DataFrame(
            [(i, *_make_storable(frame)) for frame, i in self._frames.items()],
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


def _make_storable(frame: Frame) -> Frame:
    """The frame as columns hold it, whatever the JSON that it comes from has written."""
    line = frame.line if frame.line is not None and 0 <= frame.line <= INT64_MAX else None
    function, file, module = (
        None if text is None else replace_surrogates(text)
        for text in (frame.function, frame.file, frame.module)
    )
    return Frame(frame.layer, function or "", file, line, module)


def note_shortened(trie: StackTrie) -> list[Quality]:
    """What to say where stacks were too deep."""
    if not trie.shortened:
        return []
    text = f"stacks were deeper than {MAX_DEPTH} frames: their middle is left out"
    return [Quality("stacks_shortened", "warning", text, trie.shortened)]


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
