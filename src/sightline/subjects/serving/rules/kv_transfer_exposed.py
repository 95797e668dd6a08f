"""The device waits while keys and values are moved.

Symptom
    Prompts that another server or a cache on the host computed start late; steps begin with a
    pause.

Why it hurts
    Nothing is computed while a step waits for keys and values, for all of its requests.

Evidence
    The engine's own ranges of loading and saving them (vLLM's KV connectors, SGLang's
    disaggregation), as far as no kernel runs in them.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that no kernel uses).

Fix
    Move them layer by layer beside the computation, over a faster link, or less of them.

False positives
    Python's own functions of a connector that moves nothing take microseconds.

References
    vLLM, Disaggregated Prefilling (KV connectors: start_load_kv, wait_for_layer_load,
    save_kv_layer, wait_for_save). SGLang, PD Disaggregation.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.transfers import list_transfers

RULE = Rule("kv-transfer-exposed", "The device waits for keys and values")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    moves = list_transfers(run)
    if moves.is_empty():
        return
    ops = run.table("device_ops", ["rank", "kind", "start_ns", "end_ns"])
    kernels = ops.filter(pl.col("kind") != "memcpy").select("rank", "start_ns", "end_ns")
    hidden = measure_cover_between(moves, "start_ns", "end_ns", kernels, ["rank"])
    alone = pl.col("end_ns") - pl.col("start_ns") - pl.lit(hidden)
    begins = steps.select("rank", "step", at="host_start_ns").sort("at")
    placed = moves.with_columns(ns=alone, at="start_ns").sort("at").join_asof(
        begins, on="at", by="rank", check_sortedness=False
    )  # fmt: skip
    losses = (
        placed.drop_nulls("step")
        .filter(pl.col("ns") > 0)
        .group_by("rank", "step")
        .agg(pl.col("ns").sum(), ranges=pl.len().cast(pl.Int64), name=pl.col("name").first())
        .with_columns(cost_ns="ns", gain_ns="ns")
    )
    if losses.is_empty():
        return
    cost = int(losses["cost_ns"].sum())
    yield from report_loss(
        run,
        RULE,
        losses,
        f"No kernel runs for {format_ns(cost)} while keys and values are moved.",
        [
            f"{format_several(int(losses['ranges'].sum()), 'range')} of "
            f"{losses.item(0, 'name')[:80]} in {format_several(losses.height, 'step')}",
        ],
        verify="sightline stats kv_transfers AFTER: exposed_ns",
        method="bound from the timeline: all of the transfers in which no kernel runs",
    )
