"""Some steps of decode replay no graph, though others do.

Symptom
    Steps of decode of some batch sizes take far longer than of others.

Why it hurts
    Without a graph the host launches each of hundreds of kernels, and the device waits for it.

Evidence
    Steps of decode whose kernels were launched one by one, in an engine that replays graphs in
    others. The gain is the time in them in which nothing runs, less what a replayed step has of it.

Threshold
    5 % of the window (TraceLens agent, 2026-08).

Fix
    Capture graphs for these batch sizes, too.

False positives
    Steps that no graph can hold, as with an encoder's output or a new adapter.

References
    vLLM, CUDA Graphs. SGLang, Server Arguments (cuda-graph-max-bs).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.decode import LEAST_LAUNCHES, list_decodes
from sightline.subjects.serving.findings import list_steps, report_loss

RULE = Rule("graph-miss", "Steps of decode miss the captured graphs")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    decodes = list_decodes(steps)
    replays = pl.col("graph_launches") > 0
    usual = pl.col("idle_ns").filter(replays).median().over("rank")
    losses = (
        decodes.with_columns(usual_ns=usual)
        .filter(~replays & (pl.col("launches") >= LEAST_LAUNCHES))
        .drop_nulls("usual_ns")
        .with_columns(cost_ns=(pl.col("idle_ns") - pl.col("usual_ns")).clip(0).cast(pl.Int64))
        .with_columns(gain_ns="cost_ns")
    )
    if losses.is_empty():
        return
    ends = (pl.col("decode_requests").min().alias("low"), pl.col("decode_requests").max())
    sizes, replayed = losses.select(ends).row(0), decodes.filter(replays).select(ends).row(0)
    lines = [
        f"such a step takes {format_ns(int(losses['duration_ns'].median() or 0))}, and nothing "  # type: ignore[arg-type]
        f"runs for {format_ns(int(losses['idle_ns'].median() or 0))} of it"  # type: ignore[arg-type]
    ]
    if None not in (*sizes, *replayed):
        lines.append(
            f"they have {sizes[0]} to {sizes[1]} requests; those that replay a graph "
            f"{replayed[0]} to {replayed[1]}"
        )
    yield from report_loss(
        run,
        RULE,
        losses,
        f"{format_several(losses.height, 'step')} of decode of {decodes.height} replay no graph.",
        lines,
        verify="sightline stats engine_steps AFTER: graph_launches of all steps of decode",
        method="bound from the timeline: what they idle more than steps that replay a graph",
    )
