"""Ranks arrive late at collectives because their device was fed late, and the others wait.

Symptom
    Communication kernels that run for long on all ranks but one or a few.

Why it hurts
    A collective ends when the last rank has arrived: every rank runs at the pace of the slowest.

Evidence
    Collectives matched across ranks by group and order: how long each rank's kernel was there
    before the last one's, and which arrived last (`sightline stats comm_exposure`). Waiting that
    compute hides is not counted. The late ranks idle more than the others and do not compute
    more (else imbalance speaks). The gain is a replay in which the pauses of the late ranks'
    hosts beside their idle gaps are as short as usual.

Threshold
    Exposed waiting over 5 % of the window (TraceLens agent, 2026-08: exposed communication). A rank
    is late if it adds more than an equal share of the delay.

Fix
    Look at the late rank's own gaps: data loading, a slow node, logging on rank 0, checkpoints.

False positives
    Clocks that disagree between hosts: they are moved onto one where the ends of collectives show
    it (`sightline stats clocks`), but an offset below the uncertainty there is not seen.

References
    TraceLens NcclAnalyser (wait and skew); HolisticTraceAnalysis, potential stragglers.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.replay.replay import shorten_thinking
from sightline.subjects.communication.rules._late import find_late_ranks, make_late_finding
from sightline.timeline.host_ranges import find_usual_interval, measure_in_ranges

RULE = Rule("straggler-rank", "Straggler rank", finds_late_ranks=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    found = find_late_ranks(run)
    if found is None or found.by_work:
        return
    gaps = run.ask("idle_gaps").filter(pl.col("rank").is_in(found.ranks))

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        beside = measure_in_ranges(nodes, gaps, ["rank", "device_id"]) > 0
        cut = (nodes.get_column("prev_lag_ns").fill_null(0) - find_usual_interval(nodes)).clip(
            lower_bound=0
        )
        return _arrive_earlier(
            shorten_thinking(nodes, cut * beside.cast(pl.Int64)), found.late_at_first
        )

    yield make_late_finding(
        run,
        RULE,
        found,
        without,
        why="whose hosts launch late",
        cause="the late ranks idle before the collectives: their hosts launch late",
        fix="speed up the late ranks first: check their idle gaps (sightline stats "
        "idle_rules), logging on one rank, a slow node",
    )


def _arrive_earlier(nodes: pl.DataFrame, by_rank: dict[int, int]) -> pl.DataFrame:
    """The nodes with ranks that begin earlier: their first calls wait for nothing recorded."""
    begins = pl.all_horizontal(pl.col("prev", "launch", "wait").is_null())
    shift = pl.col("rank").replace_strict(by_rank, default=0, return_dtype=pl.Int64)
    return nodes.with_columns(
        residual_ns=pl.col("residual_ns") - pl.when(begins).then(shift).otherwise(0)
    )
