"""Ranges of threads nested piece by piece, with ids that count up through all of each thread.

A thread's ranges are nested as soon as a moment is known at which none of them was open. Of a
thread with a range around all others, such as main of a program whose functions were traced, all
ranges are in memory until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.formats.system.ctf.pieces import Place, Shelf

BUCKET_ROWS = 1 << 17  # ranges that are put into order at once
_THREAD = ["pid", "tid"]
_IDS = ("host_op_id", "parent_id", "subtree_end_id")


class Nested:
    """The ranges in preorder, threads one after the other; marks, which nest nothing, come last."""

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._whole: pl.DataFrame | None = None
        self._buckets: list[list[Place]] = []
        self._marks: list[Place] = []
        self.rows = 0
        self.layers: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is one frame."""
        return self._whole is not None

    def read(self) -> Iterator[pl.DataFrame]:
        """All ranges by their ids, frame by frame."""
        if self._whole is not None:
            yield self._whole
            return
        for paths in self._buckets:
            parts = [self._shelf.take(path) for path in paths]
            if parts:
                yield pl.concat(parts).sort("host_op_id")
        for path in self._marks:
            yield self._shelf.take(path)

    def find(self, column: str, wanted: pl.Series) -> pl.DataFrame:
        """The ranges with one of these values in a column, by their ids."""
        keys = wanted.drop_nulls().unique().alias(column).to_frame()
        found = [
            frame.join(keys, on=column, how="semi", maintain_order="left") for frame in self.read()
        ]
        return pl.concat(found) if found else keys.clear()


def nest_pieces(pieces: Iterable[pl.DataFrame]) -> Nested:
    """Nest ranges that come in order of their start. Raises OSError."""
    found, shelf = Nested(), Shelf()
    waiting: pl.DataFrame | None = None
    nested: list[tuple[Place, pl.DataFrame]] = []
    marks: list[Place] = []
    layers: set[str] = set()
    pieces = iter(pieces)
    piece = next(pieces, None)
    while piece is not None:
        following = next(pieces, None)
        layers.update(piece.get_column("layer").drop_nulls().unique())
        found.rows += piece.height
        if following is None and waiting is None:
            is_mark = (pl.col("range_kind") == "mark").fill_null(value=False)
            found._whole = nest_ranges(piece, apart=is_mark)
            break
        is_mark = (pl.col("range_kind") == "mark").fill_null(value=False)
        lone = piece.filter(is_mark)
        if lone.height:
            marks.append(shelf.put(lone))
        ranges = piece.filter(~is_mark)
        if waiting is not None:
            ranges = pl.concat([waiting, ranges])
        done, waiting = (ranges, ranges.clear()) if following is None else _cut_at_quiet(ranges)
        if done.height:
            part = nest_ranges(done)
            nested.append((shelf.put(part), _count_threads(part)))
        piece = following
    found.layers = tuple(sorted(layers))
    if found._whole is None:
        _number(found, nested, marks, shelf)
    return found


def _cut_at_quiet(ranges: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ranges that nothing which follows can hold, and those of each thread from then on.

    What follows starts no earlier than the last of these; a thread is quiet before a range that
    starts after all others have ended.
    """
    placed = ranges.sort(*_THREAD, "start_ns", maintain_order=True)
    reach = pl.col("end_ns").cum_max().shift(1).over(_THREAD)
    run = (pl.col("start_ns") > reach).fill_null(value=True).cum_sum()
    is_done = run < run.max().over(_THREAD)
    placed = placed.with_columns(is_done=is_done)
    done = placed.filter("is_done").drop("is_done")
    return done, placed.filter(~pl.col("is_done")).drop("is_done")


def _count_threads(part: pl.DataFrame) -> pl.DataFrame:
    """How many ranges each thread has in a part, and the number of its first one."""
    return part.group_by(_THREAD).agg(first=pl.col("host_op_id").min(), n=pl.len().cast(pl.Int64))


def _number(
    found: Nested, nested: list[tuple[Place, pl.DataFrame]], marks: list[Place], shelf: Shelf
) -> None:
    """Give the parts ids that count up through threads, and put them into that order.

    `shelf` is where they lie; it is not needed any more.
    """
    counts = [count.with_columns(part=pl.lit(i)) for i, (_, count) in enumerate(nested)]
    whole = 0
    if counts:
        placed = pl.concat(counts).sort(*_THREAD, "part", nulls_last=False)
        shifts = placed.with_columns(shift=pl.col("n").cum_sum() - pl.col("n") - pl.col("first"))
        whole = int(placed.get_column("n").sum())
        found._buckets = [[] for _ in range(-(-whole // BUCKET_ROWS))]
        for number, (path, _) in enumerate(nested):
            mine = shifts.filter(part=number).select(*_THREAD, "shift")
            part = shelf.take(path)
            part = part.join(mine, on=_THREAD, how="left", nulls_equal=True, maintain_order="left")
            part = part.with_columns(pl.col(name) + pl.col("shift") for name in _IDS).drop("shift")
            split = part.with_columns(bucket=pl.col("host_op_id") // BUCKET_ROWS)
            for (bucket,), rows in split.partition_by(
                "bucket", as_dict=True, include_key=False
            ).items():
                found._buckets[bucket].append(found._shelf.put(rows))
    for path in marks:
        lone = shelf.take(path)
        numbered = nest_ranges(lone, apart=pl.col("start_ns").is_not_null())
        found._marks.append(
            found._shelf.put(numbered.with_columns(pl.col(name) + whole for name in _IDS))
        )
        whole += lone.height
