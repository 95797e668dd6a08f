"""A pipeline stage waits for the stage before or behind it.

Symptom
    Send and receive kernels with no compute beside them.

Why it hurts
    A stage that waits does nothing: with m micro-batches and p stages, (p - 1) of every
    (m + p - 1) slots are empty.

Evidence
    Exposed time of send and receive kernels (`sightline stats comm_exposure`) that were launched
    from a send or receive; an all-to-all runs the same kernel and is left to
    exposed-communication. How much of it is
    transfer and how much waiting the recording does not tell. The gain is a replay without them:
    what a pipeline without bubbles could give at most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    More micro-batches, interleaved stages (1F1B, virtual stages, zero-bubble schedules), stages
    of equal cost.

False positives
    Send and receive that are no pipeline, such as expert exchange or halo exchange.

References
    Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.algebra.scalars import largest, total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.timeline.communication import members
from sightline.timeline.gains import window_ns
from sightline.timeline.replay import without_ops
from sightline.units import format_bytes, format_count, format_ns, format_pct

RULE = Rule("pipeline-bubble", "Pipeline stages wait for each other")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not total(run.ask("breakdown"), "exposed_comm_ns"):
        return
    parts = run.ask("comm_exposure")
    cost = total(parts, "pipeline_ns")
    pct = 100 * cost / window_ns(run)
    if pct < NOTABLE_PCT:
        return
    comm = members(run).filter(pl.col("part") == "pipeline")
    ids = comm.get_column("device_op_id")
    size = comm.get_column("size").median()
    busy = total(comm.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    evidence = [f"{format_count(comm.height)} operations, {format_ns(busy)} in all"]
    if isinstance(size, int | float):
        evidence.append(f"median size {format_bytes(size)}")
    shown = ["device_op_id", "rank", "device_id", "start_ns", "end_ns"]
    yield make_finding(
        run,
        RULE,
        f"{format_pct(pct)} of the window is send and receive with no compute beside it.",
        Loss(
            cost_ns=cost,
            bound_ns=largest(parts, "pipeline_ns"),
            change=lambda nodes: without_ops(nodes, ids),
        ),
        Evidence(
            evidence,
            rows=comm.head(5).select(shown).to_dicts(),
            where={"ranks": comm.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="more micro-batches, interleaved stages, or stages of equal cost",
            verify="sightline stats comm_exposure AFTER: pipeline_ns "
            f"(now {format_ns(largest(parts, 'pipeline_ns'))} at most)",
            cause="a stage has nothing to do until its neighbour has finished",
            sources=("Narayanan et al. (2021): bubble (p - 1) / (m + p - 1)",),
        ),
        confidence="medium",
    )
