"""Ranks have unequal work, and those with less wait in the collective.

Symptom
    Communication kernels that run for long on the ranks that compute less.

Why it hurts
    A collective ends when the last rank has arrived: the device with most work sets the pace, and
    the others' time is lost.

Evidence
    As for straggler-rank, where the late ranks compute more than the others. The gain is a replay
    in which their kernels are shorter, so that they compute as much as the others do on average.

Threshold
    Exposed waiting over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    Split the work evenly: batches by tokens instead of samples, experts by load, stages by cost.
    Where the work is equal, the device is slower: look at its clocks.

False positives
    Ranks of different roles on purpose.

References
    TraceLens NcclAnalyser (wait and skew).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import average_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.replay.replay import scale_nodes
from sightline.subjects.communication.rules._late import find_late_ranks, make_late_finding

RULE = Rule("imbalance", "Load imbalance between ranks", finds_late_ranks=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    found = find_late_ranks(run)
    if found is None or not found.by_work:
        return
    rows = run.ask("breakdown")
    is_late = pl.col("rank").is_in(found.ranks)
    usual = average_column(rows.filter(~is_late), "compute_ns")
    ratio = usual / max(average_column(rows.filter(is_late), "compute_ns"), 1.0)

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        mine = is_late & (pl.col("kind") == "kernel") & pl.col("meeting").is_null()
        return scale_nodes(nodes, nodes.select(pl.when(mine).then(ratio)).to_series())

    yield make_late_finding(
        run,
        RULE,
        found,
        without,
        why="which have more to compute",
        cause="the late ranks compute longer before each collective",
        fix="split the work evenly; if it is equal, compare the GPUs' clocks",
    )
