"""The device waits between steps while the engine schedules.

Symptom
    Gaps between the steps of an inference engine, though requests are there.

Why it hurts
    Every token of every request waits for them.

Evidence
    The gaps between steps in which a request was there (`sightline stats engine_steps`), without
    what sampling on the host takes of them. Asynchronous scheduling hides what lies between steps
    behind the step before, so that no more is gained than that step is long; preparing inputs in a
    step is counted as cost only.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that no kernel uses).

Fix
    The server's own flag for asynchronous or overlap scheduling.

False positives
    Without the client's log, whether a request was there is read from who decodes before and
    behind a gap: open the client's log with the trace (docs/serving.md).

References
    vLLM, Async Scheduling. SGLang v0.4, Zero-Overhead Batch Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.subjects.serving.findings import list_steps, measure_windows, report_loss
from sightline.subjects.serving.sampling import measure_sampling

RULE = Rule("scheduler-bubble", "The engine schedules while the device waits")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None:
        return
    before = pl.col("duration_ns").shift(1).over("rank").fill_null(0)
    # What a step samples lies in the gap before the next one.
    sampled = measure_sampling(run).select("rank", pl.col("step") + 1, behind="gap_ns")
    behind = pl.col("behind").fill_null(0)
    # Sampling lies in a step's range (vLLM) or behind it (TensorRT-LLM): the other rule's.
    losses = (
        steps.join(sampled, on=["rank", "step"], how="left", maintain_order="left")
        .with_columns(
            in_step_ns=(pl.col("in_step_ns") - behind).clip(lower_bound=0),
            scheduler_ns=pl.col("scheduler_ns")
            - (behind - pl.col("in_step_ns")).clip(pl.lit(0), pl.col("scheduler_ns")),
        )
        .with_columns(cost_ns=pl.col("scheduler_ns") + pl.col("in_step_ns"))
        .with_columns(gain_ns=pl.min_horizontal("scheduler_ns", before))
        .filter(pl.col("cost_ns") > 0)
    )
    if losses.is_empty():
        return
    cost, middle = int(losses["cost_ns"].sum()), losses["cost_ns"].median()
    between, inside = int(losses["scheduler_ns"].sum()), int(losses["in_step_ns"].sum())
    share = format_pct(100 * cost / measure_windows(run)[0])
    yield from report_loss(
        run,
        RULE,
        losses,
        f"Between steps the engine schedules for {share} of the window, with requests there.",
        [
            f"{format_several(losses.height, 'gap')}, the median {format_ns(int(middle or 0))}",  # type: ignore[arg-type]
            f"{format_ns(between)} between steps: scheduling, messages between processes; "
            f"{format_ns(inside)} in steps: preparing inputs, reading back",
        ],
        verify="sightline stats engine_steps AFTER: scheduler_ns and in_step_ns",
        method="bound from the timeline: scheduling, as far as the step before can hide it",
    )
