"""What a problem's end would gain: the run replayed without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.algebra.window import starts_in
from sightline.core.model.run import Run
from sightline.replay import critical_path as path
from sightline.replay.graph import list_nodes
from sightline.replay.recorder_cost import contract_nodes, estimate_costs, spread_costs
from sightline.replay.replay import (
    ANCHORS,
    Times,
    follow_guesses,
    is_op,
    measure_span,
    replay_graph,
)
from sightline.replay.resources import measure_least

Change = Callable[[pl.DataFrame], pl.DataFrame]


HOST = "the host"
# What limits a run, by the part of its critical path.
_LIMITS = {
    path.HOST: HOST,
    path.CALL: HOST,
    path.LAUNCH: HOST,
    path.RETURN: HOST,
    path.GAP: "the gaps between operations of a stream",
    path.EVENT: "streams that wait for each other",
    path.COMPUTE: "compute",
    path.COMM: "communication",
    path.COPY: "copies and memsets",
    path.OTHER: "operations whose meaning is not known",
    path.UNRECORDED: "the host (a guess: launches were not recorded)",
    path.HELD: "launched work that does not start",
    path.GRAPH: "launched work that does not start",
    path.UNEXPLAINED: "what the recording does not explain",
}


@dataclass(frozen=True)
class Gain:
    """The window of the slowest device, as recorded and as replayed, and the replayed nodes."""

    before_ns: int
    after_ns: int
    replayed: pl.DataFrame

    @property
    def ns(self) -> int:
        """How much shorter; 0 where nothing is gained."""
        return max(0, self.before_ns - self.after_ns)


def starts_in_window(run: Run, nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are device operations that start in their device's window."""
    return is_op(nodes) & starts_in(nodes, run.ask("windows"))


def replay_gain(run: Run, change: Change) -> Gain:
    """The window without the problem: the nodes are changed, and the run is replayed."""
    return _compare(run, list_nodes(run), change, run.once(_measure_recorded)[2])


def replay_unslowed_gain(run: Run, change: Change) -> Gain | None:
    """The same gain of a host that no recorder slows down; None where it is not known to do so.

    A device that is busy all the time hides what its recorder takes of the host. Once much of the
    device's work is gone, the host is the next limit, and that at its own pace.
    """
    bare = run.once(_list_unslowed)
    if bare is None:
        return None
    inside, anchors, _ = run.once(_measure_recorded)
    return _compare(run, bare, change, measure_span(bare, replay_graph(bare), inside, anchors))


def _compare(run: Run, nodes: pl.DataFrame, change: Change, before: int) -> Gain:
    """The window of these nodes, which takes `before` ns, beside that of the changed ones."""
    inside, anchors, _ = run.once(_measure_recorded)
    changed = change(nodes)
    times = replay_graph(changed)
    replayed = changed.with_columns(start_ns=times.start, end_ns=times.end)
    # A device whose work is left as it is needs no less time for it than before.
    least = min(measure_least(run, replayed, inside), before)
    return Gain(before, max(measure_span(nodes, times, inside, anchors), least), replayed)


def _list_unslowed(run: Run) -> pl.DataFrame | None:
    """The nodes without what recording cost the host, if that is known moment by moment.

    Of PyTorch's profiler it is. Of a constant for each launch it is not: where the device waited
    for each launch anyway, a gain of 54 % by the clock became one of 64 (H100, CUPTI).
    """
    if not run.is_all_of("kineto"):
        return None
    nodes = list_nodes(run)
    costs = estimate_costs(run, nodes)
    if not any(cost.is_any for cost in costs.values()):
        return None
    return contract_nodes(nodes, spread_costs(nodes, costs))


def replay_both(run: Run, change: Change) -> tuple[Gain, Gain]:
    """The gain where guessed waits hold nobody, and where they do; the smaller one first.

    Which of the two it is, the recording does not show: a gap between an operation and the one that
    it may have waited for is not proof.
    """
    without = replay_gain(run, change)
    if not list_nodes(run).get_column("guess").count():
        return without, without
    both = without, replay_gain(run, lambda nodes: change(follow_guesses(nodes)))
    return min(both, key=lambda gain: gain.ns), max(both, key=lambda gain: gain.ns)


def name_next_limit(run: Run, gain: Gain) -> tuple[str, float] | None:
    """What most of the critical path is made of once the problem is gone, and its share in %.

    None where nothing is left of the window.
    """
    inside, _, _ = run.once(_measure_recorded)
    spans = (
        gain.replayed.select("rank", "device_id", "start_ns", "end_ns")
        .filter(inside)
        .group_by("rank", "device_id")
        .agg(begin=pl.col("start_ns").min(), end=pl.col("end_ns").max())
        .sort(pl.col("end") - pl.col("begin"), "rank", "device_id", descending=[True, False, False])
    )
    if spans.is_empty():
        return None
    begin, end = spans.select("begin", "end").row(0)
    parts = path.sum_critical_path(gain.replayed, begin, end, sort_recorded(run))
    limits = parts.with_columns(limit=pl.col("part").replace_strict(_LIMITS))
    shares = limits.group_by("limit").agg(pl.col("ns").sum())
    shares = shares.sort("ns", "limit", descending=[True, False])
    if shares.is_empty():
        return None
    name, ns = shares.row(0)
    return name, 100 * ns / max(sum_column(shares, "ns"), 1)


def _measure_recorded(run: Run) -> tuple[pl.Series, pl.DataFrame, int]:
    """Which nodes count, what begins their windows, and how long these are as recorded, ns."""
    nodes = list_nodes(run)
    inside = starts_in_window(run, nodes)
    anchors = _find_anchors(run, nodes, inside)
    times = Times(nodes.get_column("start_ns"), nodes.get_column("end_ns"))
    return inside, anchors, measure_span(nodes, times, inside, anchors)


def _find_anchors(run: Run, nodes: pl.DataFrame, inside: pl.Series) -> pl.DataFrame:
    """What a device's window begins behind, where that is before its first operation.

    Columns rank, device_id, anchor (a node) and lead_ns, from that node's end to the window's
    begin. A window of steps begins with the end of the step before: what passes from there to the
    first operation is part of the step, and gone where its cause is.
    """
    device = ["rank", "device_id"]
    windows = run.ask("windows").select(*device, begin="window_start_ns")
    first = nodes.filter(inside).group_by(device).agg(first=pl.col("start_ns").min())
    later = windows.join(first, on=device).filter(pl.col("first") > pl.col("begin"))
    if later.is_empty():
        return pl.DataFrame(schema=ANCHORS)
    ended = nodes.select("rank", "end_ns", anchor="node").sort("end_ns")
    rows = find_latest(later, "begin", ended, "end_ns", ["rank"])
    found = later.hstack(take_rows(ended.select("anchor", "end_ns"), rows))
    return found.drop_nulls("anchor").select(
        *device, pl.col("anchor").cast(pl.Int64), lead_ns=pl.col("begin") - pl.col("end_ns")
    )


def sort_recorded(run: Run) -> pl.Series:
    """The sort of each of the run's nodes (`path.sort_nodes`)."""
    return run.once(_sort_recorded)


def _sort_recorded(run: Run) -> pl.Series:
    told = run.table("collectives", ["device_op_id"]).get_column("device_op_id").drop_nulls()
    return path.sort_nodes(list_nodes(run), told.unique())


def sum_windows(run: Run) -> int:
    """All devices' windows together."""
    return max(sum_column(run.ask("breakdown"), "window_ns"), 1)
