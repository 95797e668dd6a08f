"""A run at other times: the same rows, where a replay has them.

Device operations lie where the replay has them, what threads did moves with the calls around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl
from polars.io.plugins import register_io_source

from sightline.core.algebra.interpolate import interpolate
from sightline.core.algebra.lookup import find_rows
from sightline.core.model.run import Run
from sightline.core.model.store import FROM_FACTS
from sightline.core.model.tables import load_table
from sightline.replay.recorder_cost import contract_nodes
from sightline.replay.replay import is_op, replay_graph

# Recorded moments of one rank in order, and the new ones, ns.
Anchors = tuple[pl.Series, pl.Series]
# What tells, beside a row's rank, where a replay has it.
_OWN = {"device_ops": ("device_op_id",)}


@dataclass(repr=False)
class UnrecordedRun(Run):
    """A run whose rows have the times of `moves`: of each rank, recorded moments and the new ones.

    `ops` are the device operations' times: device_op_id, start_ns and end_ns; `moved` are the times
    of each table that was asked for.
    """

    checks_spans: ClassVar[bool] = False

    ops: pl.DataFrame = field(default_factory=pl.DataFrame)
    moves: dict[int, Anchors] = field(default_factory=dict)
    moved: dict[tuple[str, str], pl.Series] = field(default_factory=dict)

    def scan(self, name: str, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """A table with the moved times, of which only the columns that are asked for are made."""
        moments = load_table(name).moments
        if not moments or name in FROM_FACTS or not self.moves:
            return super().scan(name, columns)
        rows = super().scan(name)

        def read(
            columns: list[str] | None, wanted: pl.Expr | None, limit: int | None, _size: int | None
        ) -> Iterator[pl.DataFrame]:
            asked = columns or rows.collect_schema().names()
            moving = [c for c in asked if c in moments]
            if wanted is None or set(wanted.meta.root_names()) & set(moments):
                frame = rows.select([c for c in asked if c not in moments] or "rank").collect()
                frame = frame.hstack([self._move_column(name, c) for c in moving])[asked]
            else:  # of few rows no more are moved
                needed = dict.fromkeys([*asked, "rank", *_OWN.get(name, ())])
                frame = rows.filter(wanted).select(*needed).collect()
                moved = [self._move(name, frame, c) for c in moving]
                frame, wanted = frame.with_columns(moved).select(asked), None
            frame = frame if wanted is None else frame.filter(wanted)
            yield frame if limit is None else frame.head(limit)

        return register_io_source(read, schema=rows.collect_schema())

    def _move_column(self, name: str, column: str) -> pl.Series:
        """The moved times of a table's column, made once."""
        known = self.moved.get((name, column))
        if known is None:
            needed = dict.fromkeys([column, "rank", *_OWN.get(name, ())])
            frame = super().scan(name, list(needed)).select(*needed).collect()
            known = self.moved[name, column] = self._move(name, frame, column)
        return known

    def _move(self, name: str, frame: pl.DataFrame, column: str) -> pl.Series:
        """The moved times of some rows of a table."""
        if name != "device_ops" or column not in ("start_ns", "end_ns"):
            return _move(frame, column, self.moves)
        at = find_rows(self.ops.get_column("device_op_id"), frame.get_column("device_op_id"))
        return self.ops.get_column(column).gather(at).fill_null(frame.get_column(column))

    def with_window(self, window: str | None) -> UnrecordedRun:
        """The same run, asked about another part of its timeline."""
        if window == self.window:
            return self
        return UnrecordedRun(
            self.parts, window, self._tables, ops=self.ops, moves=self.moves, moved=self.moved
        )

    def __getstate__(self) -> dict[str, Any]:
        """For workers: the run, and how its times moved."""
        return {**super().__getstate__(), "ops": self.ops, "moves": self.moves}

    def restore(self, moments: pl.Series, rank: int) -> pl.Series:
        """When moments of a rank were on the recorded timeline, ns."""
        anchors = self.moves.get(rank)
        if anchors is None or moments.is_empty():
            return moments
        return interpolate(moments, *reversed(anchors))


def move_run(run: Run, nodes: pl.DataFrame, taken: pl.DataFrame, times: float) -> UnrecordedRun:
    """The run at the times of a replay without so many times what the recorder took."""
    replayed = replay_graph(contract_nodes(nodes, taken, times))
    device = is_op(nodes)
    moved = nodes.with_columns(new_start=replayed.start, new_end=replayed.end)
    ops = (
        moved.filter(device)
        .select(device_op_id="ref_id", start_ns="new_start", end_ns="new_end")
        .sort("device_op_id")
    )
    host = moved.filter(~device)
    moves = {
        rank: _find_anchors(mine)
        for (rank,), mine in host.partition_by("rank", as_dict=True).items()
    }
    return UnrecordedRun(run.parts, run.window, ops=ops, moves=moves)


def _find_anchors(calls: pl.DataFrame) -> Anchors:
    """The begins and ends of one rank's calls, in order of time, and when they are without it."""
    both = [calls.select(at=e, new=f"new_{e.removesuffix('_ns')}") for e in ("start_ns", "end_ns")]
    known = pl.concat(both).sort("at").with_columns(pl.col("new").cum_max())
    last = known.filter(pl.col("at").ne_missing(pl.col("at").shift(-1)))
    return last.get_column("at"), last.get_column("new")


def _move(frame: pl.DataFrame, name: str, moves: dict[int, Anchors]) -> pl.Series:
    """A column of moments, moved rank by rank."""
    column = frame.get_column(name)
    for rank, (recorded, moved) in moves.items():
        known = (frame.get_column("rank") == rank) & column.is_not_null()
        rows = known.arg_true()
        column = column.scatter(rows, interpolate(column.gather(rows), recorded, moved))
    return column
