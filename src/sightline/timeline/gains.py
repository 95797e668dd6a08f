"""What a problem's end would gain: the run replayed without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sightline.algebra.scalars import sum_column
from sightline.algebra.window import starts_in
from sightline.model.run import Run
from sightline.timeline.replay import Times, is_op, measure_span, replay_graph

Change = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Gain:
    """The window of the slowest device, as recorded and in the replay."""

    before_ns: int
    after_ns: int

    @property
    def ns(self) -> int:
        """How much shorter; 0 where nothing is gained."""
        return max(0, self.before_ns - self.after_ns)


def starts_in_window(run: Run, nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are device operations that start in their device's window."""
    return is_op(nodes) & starts_in(nodes, run.ask("windows"))


def replay_gain(run: Run, change: Change) -> Gain:
    """The window without the problem: the nodes are changed, and the run is replayed."""
    nodes = run.ask("dependencies")
    inside, before = run.once(_measure_recorded)
    return Gain(before, measure_span(nodes, replay_graph(change(nodes)), inside))


def _measure_recorded(run: Run) -> tuple[pl.Series, int]:
    """Which nodes count, and from their first start to their last end as recorded, ns."""
    nodes = run.ask("dependencies")
    inside = starts_in_window(run, nodes)
    times = Times(nodes.get_column("start_ns"), nodes.get_column("end_ns"))
    return inside, measure_span(nodes, times, inside)


def sum_windows(run: Run) -> int:
    """All devices' windows together."""
    return max(sum_column(run.ask("breakdown"), "window_ns"), 1)
