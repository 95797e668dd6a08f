"""The run without its recorder: the same rows at the times that they would have had.

The dependency graph is replayed with what recording cost the host taken out (recorder_cost.py), and
every time of the run moves with it: device operations to where the replay has them, what threads
did by the calls around it. Any analysis can be asked of such a run; where the device is the limit
it is the recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.scalars import find_largest
from sightline.core.model.run import Run
from sightline.replay.gains import starts_in_window
from sightline.replay.graph import list_nodes
from sightline.replay.moved_run import UnrecordedRun, move_run
from sightline.replay.recorder_cost import RecorderCost, estimate_costs, spread_costs
from sightline.replay.side_costs import estimate_side_costs
from sightline.timeline.step_clock import list_steady_steps

# A recorder that takes less of the run changes no answer: so much do runs of one program differ.
LEAST_SHARE = 0.05
# Of the estimated cost: between these lie most of the programs that were measured with and without
# PyTorch's profiler (docs/accuracy.md). Runs of one program differ by 5 % themselves.
LOW_COST, HIGH_COST, LEAST_OFF, MOST_OFF = 0.4, 1.5, 0.05, 0.25


@dataclass(frozen=True)
class Unrecorded:
    """A run without its recorder, and by how much it is shorter.

    `recorded_ns`, `ns`, `low_ns` and `high_ns` are a step's time where there are steps
    (`step_clock.py`), else the longest window's: as recorded, as estimated, and its range.
    """

    run: UnrecordedRun
    recorded_ns: int
    ns: int
    low_ns: int
    high_ns: int
    is_step: bool


def remove_recorder(run: Run) -> Unrecorded | None:
    """The run without its recorder; None where that is unknown, or the same as recorded.

    Of the whole run and of its steps: another part of the timeline, given in time, is the recorded
    one's.
    """
    return run.once(_remove_recorder)


def remove_recorders(runs: Sequence[Run]) -> list[Unrecorded | None]:
    """Several runs of one program without their recorders, at one pace of the host.

    Each is None where it is as recorded; none has a range (`low_ns` and `high_ns` are `ns`), since
    errors that both sides share cancel. Where a tool that records no operators made one of them,
    their hosts' pace is not known, and each is by itself.
    """
    if not all(run.is_all_of("kineto") for run in runs):
        return [remove_recorder(run) for run in runs]
    nodes = [list_nodes(run) if _may_be_slower(run) else None for run in runs]
    known = [(run, mine) for run, mine in zip(runs, nodes, strict=True) if mine is not None]
    costs = iter(estimate_side_costs([run for run, _ in known], [mine for _, mine in known]))
    return [
        None if mine is None else _remove(run, mine, next(costs), is_ranged=False)
        for run, mine in zip(runs, nodes, strict=True)
    ]


def _remove_recorder(run: Run) -> Unrecorded | None:
    if not _may_be_slower(run):
        return None
    nodes = list_nodes(run)
    return _remove(run, nodes, estimate_costs(run, nodes))


def _may_be_slower(run: Run) -> bool:
    """Whether the host may have made the run longer at all: a device waits for it."""
    chosen = run.window or "steady"
    if chosen != "steady" and not chosen.startswith("step:"):
        return False
    if isinstance(run, UnrecordedRun) or not (run.rows("device_ops") and run.rows("host_ops")):
        return False
    nodes = list_nodes(run)
    inside = starts_in_window(run.with_window(None), nodes)
    return _measure_idle(nodes.filter(inside)) >= LEAST_SHARE


def _remove(
    run: Run, nodes: pl.DataFrame, costs: dict[int, RecorderCost], *, is_ranged: bool = True
) -> Unrecorded | None:
    """The run without these costs, with its range if asked; None where they make it no shorter."""
    if not any(cost.is_any for cost in costs.values()):
        return None
    before = measure_length(run)
    taken = spread_costs(nodes, costs)
    bare = move_run(run, nodes, taken, 1.0)
    after = measure_length(bare)
    if after > (1 - LEAST_SHARE) * before:
        return None
    is_step = measure_step(run) > 0
    if not is_ranged:
        return Unrecorded(bare, before, after, after, after, is_step)
    longer, shorter = (
        measure_length(move_run(run, nodes, taken, times)) for times in (LOW_COST, HIGH_COST)
    )
    low = 1 - min(max(1 - shorter / after, LEAST_OFF), MOST_OFF)
    high = 1 + min(max(longer / after - 1, LEAST_OFF), MOST_OFF)
    return Unrecorded(bare, before, after, round(after * low), round(after * high), is_step)


def _measure_idle(ops: pl.DataFrame) -> float:
    """The share of their span in which none of the operations runs, on the idlest device."""
    device = ["rank", "device_id"]
    busy = measure_cover(ops.select(*device, "start_ns", "end_ns"), device)
    spans = ops.group_by(device).agg(span=pl.col("end_ns").max() - pl.col("start_ns").min())
    share = 1 - pl.col("covered_ns") / pl.col("span")
    return float(spans.join(busy, on=device).select(share.max()).item() or 0)


def measure_length(run: Run) -> int:
    """A steady step's time, or where there are no steps the longest device's span, ns."""
    ops = run.table("device_ops", ["rank", "device_id", "start_ns", "end_ns"])
    spans = ops.group_by("rank", "device_id").agg(
        ns=pl.col("end_ns").max() - pl.col("start_ns").min()
    )
    return measure_step(run) or find_largest(spans, "ns")


def measure_step(run: Run) -> int:
    """The mean steady step of all ranks, ns; 0 where there are none that one could be sure of."""
    steps = list_steady_steps(run).filter(pl.col("confidence") != "low")
    mean = steps.select((pl.col("end_ns") - pl.col("start_ns")).mean()).item()
    return round(mean or 0)
