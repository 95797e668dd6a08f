"""What a problem's end would gain: the run replayed without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sightline.algebra.scalars import total
from sightline.algebra.window import starts_in
from sightline.model.run import Run
from sightline.timeline.replay import Times, is_op, replay, span_ns

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


def inside_window(run: Run, nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are device operations that start in their device's window."""
    return is_op(nodes) & starts_in(nodes, run.ask("windows"))


def replay_gain(run: Run, change: Change) -> Gain:
    """The window without the problem: the nodes are changed, and the run is replayed."""
    nodes = run.ask("dependencies")
    inside, before = run.once(_recorded)
    return Gain(before, span_ns(nodes, replay(change(nodes)), inside))


def _recorded(run: Run) -> tuple[pl.Series, int]:
    """Which nodes count, and from their first start to their last end as recorded, ns."""
    nodes = run.ask("dependencies")
    inside = inside_window(run, nodes)
    times = Times(nodes.get_column("start_ns"), nodes.get_column("end_ns"))
    return inside, span_ns(nodes, times, inside)


def window_ns(run: Run) -> int:
    """All devices' windows together."""
    return max(total(run.ask("breakdown"), "window_ns"), 1)
