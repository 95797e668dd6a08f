"""Some instances of one kernel, with the same grid and block, take longer than most.

Symptom
    A kernel of equal shape whose durations differ.

Why it hurts
    The same work at another speed: bad alignment, cold caches, a lower clock, a neighbor on the
    device, or another input length hidden in the same grid.

Evidence
    Durations by name, grid, block and the shapes of the operator's inputs, of at least ten
    instances. Without recorded shapes equal grids may hide other work, and the rule
    abstains. Of each instance what exceeds twice the median is counted; those that ran
    beside communication are left to overlap-slows-compute. The gain is a replay in which these
    take the median.

Threshold
    An instance is slow above twice its median (ours: well outside the usual spread; no peer
    states one), and their excess is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Compare a slow and a usual instance: what ran beside it, its inputs' alignment, the clock.

False positives
    Kernels whose work depends on data that the grid does not show (ragged attention, scatter).

References
    HolisticTraceAnalysis, kernel duration distribution.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import keep_rows, number_groups, take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import NOTABLE_PCT, abstain
from sightline.replay.gains import sum_windows
from sightline.subjects.kernels.rules._shared import (
    add_shapes,
    find_shorter_kernels,
    list_computing,
)
from sightline.timeline.communication import overlaps_communication

RULE = Rule("slow-variant", "Slow instances of a kernel")
_SHAPE = ["name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shapes"]
_LEAST, _TIMES = 10, 2.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    if not _describe_spread(run):
        return
    kernels = add_shapes(run, list_computing(run))
    slow = _list_above_median(keep_rows(kernels, kernels.get_column("grid_x").is_not_null()))
    if slow.get_column("shapes").null_count():
        excess = slow.filter(pl.col("shapes").is_null()).get_column("length").sum()
        if 100 * excess > NOTABLE_PCT * sum_windows(run):
            yield abstain(
                RULE,
                "kernels of equal grid differ, but input shapes were not recorded: record "
                "with record_shapes=True",
            )
        slow = slow.drop_nulls("shapes")
    beside = overlaps_communication(slow, run)
    slow = slow.filter(~beside).with_columns(factor=pl.col("median") / pl.col("length"))
    found = find_shorter_kernels(
        run,
        RULE,
        slow,
        "{share} of the window is lost to instances of a kernel that run slower than most of the "
        "same shape.",
        cause="the recording shows that they differ, not why",
        fix="compare a slow instance with a typical one: what overlaps it, its inputs, the clock",
        sources=("HolisticTraceAnalysis: kernel duration distribution",),
        confidence="low",
    )
    if found:
        yield found


def _list_above_median(kernels: pl.DataFrame) -> pl.DataFrame:
    """Instances that take over twice the median of their shape, where there are enough of it."""
    group, _ = number_groups(kernels, _SHAPE)
    of_shape = (
        kernels.select(pl.col("length"), group=group)
        .group_by("group")
        .agg(n=pl.len(), median=pl.col("length").median())
        .sort("group")
    )
    of_each = take_rows(of_shape.drop("group"), group)
    is_slow = (pl.col("n") >= _LEAST) & (pl.col("length") > _TIMES * pl.col("median"))
    return kernels.hstack(of_each).filter(is_slow).drop("n")


def _describe_spread(run: Run) -> bool:
    """Whether instances differ enough for anything to be found: all above the shortest."""
    kernels = run.ask("kernels")
    excess = sum_column(kernels, "total_ns") - int((kernels["instances"] * kernels["min_ns"]).sum())
    return 100 * excess > NOTABLE_PCT * sum_windows(run)
