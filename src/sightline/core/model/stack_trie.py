"""Stacks as a trie: the tables `frames` and `stacks` from paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from sightline._native import StackNodes
from sightline.core.model.declare import Quality
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX

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


_ROOT = -1  # the compiled trie's, and what it takes for no frame


@dataclass
class StackTrie:
    """Collects stacks; equal prefixes are one node. Ids count from 0."""

    _frames: dict[Frame, int] = field(default_factory=dict)
    _nodes: StackNodes = field(default_factory=StackNodes)
    shortened: int = 0  # stacks whose middle was left out
    _columns: list[pl.DataFrame] = field(default_factory=list)  # of frames that came as columns
    _count: int = 0

    def number(self, frame: Frame) -> int:
        """A frame's number, for stacks that are given by numbers."""
        known = self._frames.get(frame)
        if known is None:
            known = self._frames[frame] = self._count
            self._count += 1
        return known

    def number_texts(self, layer: str, functions: pl.Series) -> pl.Series:
        """The numbers of frames that have nothing but a function, null for null.

        To be called once for a layer, of which no other frame is.
        """
        texts = functions.unique(maintain_order=True).drop_nulls().alias("function")
        numbers = pl.int_range(self._count, self._count + len(texts), eager=True).alias("frame_id")
        self._count += len(texts)
        self._columns.append(
            pl.DataFrame([numbers, texts]).with_columns(
                layer=pl.lit(layer), file=None, line=None, module=None
            )
        )
        if len(texts) == len(functions):
            return numbers
        return functions.replace_strict(texts, numbers, default=None, return_dtype=pl.Int64)

    def add(self, path: Iterable[Frame]) -> int | None:
        """The id of a stack, given root first; None for an empty one.

        Of one deeper than MAX_DEPTH the middle is left out, and one frame says so.
        """
        return self.add_numbers([self.number(frame) for frame in path])

    def add_numbers(self, path: Sequence[int]) -> int | None:
        """The same of numbered frames."""
        if len(path) > MAX_DEPTH:
            half = MAX_DEPTH // 2
            frames = self.tables()["frames"]
            layer = frames.get_column("layer")[path[half]]
            left_out = self.number(Frame(layer, "[frames left out]"))
            path = [*path[:half], left_out, *path[1 - half :]]
            self.shortened += 1
        return self._nodes.add(_ROOT, path) if path else None

    def add_below(self, parent: int | None, *frames: Frame) -> int | None:
        """The id of the stack that continues another one by these frames; of no depth but a few."""
        numbers = [self.number(frame) for frame in frames]
        node = self._nodes.add(_ROOT if parent is None else parent, numbers)
        return None if node == _ROOT else node

    def add_paths(
        self, numbers: pl.Series, lengths: pl.Series, parent: int | None = None
    ) -> pl.Series:
        """The ids of stacks of numbered frames, one after the other, and of how many each has.

        Null for an empty one. Where there is a parent, all continue it.
        """
        if (lengths > MAX_DEPTH).any():
            above = [] if parent is None else self._list_numbers(parent)
            ends = lengths.cum_sum()
            paths = (
                [*above, *numbers.slice(end - length, length)]
                for end, length in zip(ends, lengths, strict=True)
            )
            return pl.Series("stack_id", map(self.add_numbers, paths), dtype=pl.Int64)
        node = _ROOT if parent is None else parent
        columns = (column.cast(pl.Int64).rechunk().to_frame() for column in (numbers, lengths))
        return pl.DataFrame(self._nodes.add_paths(node, *columns)).get_column("stack_id")

    def _list_numbers(self, stack: int) -> list[int]:
        """The frames of a stack, root first."""
        parents, frames, _ = pl.DataFrame(self._nodes.table())
        node: int | None = stack
        path = []
        while node is not None:
            path.append(frames[node])
            node = parents[node]
        return path[::-1]

    def add_rows(self, parents: pl.Series | None, frames: pl.DataFrame) -> pl.Series:
        """The ids of stacks that continue others by a few frames each: a column for each depth.

        frames: numbers of frames; null where a row has none at that depth. parents: ids of stacks,
        null for a stack without frames; None where all begin with these.
        """
        first = pl.lit(_ROOT).alias("") if parents is None else parents.alias("")
        rows = frames.select(first, pl.all()).select(pl.all().cast(pl.Int64).fill_null(_ROOT))
        return pl.DataFrame(self._nodes.add_rows(rows.rechunk())).get_column("stack_id")

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables `frames` and `stacks`."""
        types = {"frame_id": pl.Int64, "layer": pl.String, "function": pl.String}
        types |= {"file": pl.String, "line": pl.Int64, "module": pl.String}
        single = pl.DataFrame(
            [(i, *_make_storable(frame)) for frame, i in self._frames.items()],
            schema=types,
            orient="row",
        )
        parts = [
            single,
            *(
                part.select(pl.col(name).cast(kind) for name, kind in types.items())
                for part in self._columns
            ),
        ]
        frames = pl.concat(parts).sort("frame_id")
        stacks = pl.DataFrame(self._nodes.table()).select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("stack_id"), pl.all()
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


def tabulate_weights(rows: Iterable[tuple[int | None, str, int, str]]) -> pl.DataFrame:
    """(stack_id, metric, value, match) as columns; values of any size as 128 bits."""
    held = ((i, metric, min(max(-1, v), INT64_MAX + 1), match) for i, metric, v, match in rows)
    types = {"stack_id": pl.Int64, "metric": pl.String, "value": pl.Int128, "match": pl.String}
    return pl.DataFrame(list(held), schema=types, orient="row")


def make_weights(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `stack_weights`: stack_id, metric, value, match, equal keys added up."""
    # Categories take half the time of texts to tell apart.
    kind = pl.col("metric", "match").cast(pl.Categorical)
    columns = rows.drop_nulls("stack_id").select("stack_id", kind, pl.col("value").cast(pl.Int64))
    parts = [
        part
        if part.get_column("stack_id").n_unique() == part.height
        else part.group_by("stack_id", "metric", "match", maintain_order=True).agg(
            pl.col("value").sum()
        )
        for part in columns.partition_by("metric", "match", maintain_order=True)
    ]
    return pl.concat(parts or [columns]).with_columns(pl.col("metric", "match").cast(pl.String))
