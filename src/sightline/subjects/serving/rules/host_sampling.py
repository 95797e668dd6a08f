"""Tokens are sampled on the host while the device waits.

Symptom
    The host is busy at the end of each step, and no kernel runs.

Why it hurts
    Sampling lies on the path of every token, and Python does it one request after the other.

Evidence
    The engine's own ranges of sampling (vLLM writes them with VLLM_CUSTOM_SCOPES_FOR_PROFILING=1),
    without the time in which the device computes, or operators do where there is no device. The
    gain is a bound: all of that.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that no kernel uses).

Fix
    Sample on the GPU; no logits processors in Python.

False positives
    A sampler that waits for the device at its end looks alike where the device's work was not
    recorded.

References
    vLLM, Custom Logits Processors.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.sampling import measure_sampling

RULE = Rule("host-sampling", "Tokens are sampled on the host")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if list_steps(run) is None:
        return
    losses = measure_sampling(run).filter(pl.col("host_ns") > 0)
    if losses.is_empty():
        return
    middle = int(losses["host_ns"].median() or 0)  # type: ignore[arg-type]
    yield from report_loss(
        run,
        RULE,
        losses.with_columns(cost_ns="host_ns", gain_ns="host_ns"),
        f"The host samples for {format_ns(middle)} in the median step while the device waits.",
        [f"{format_several(losses.height, 'step')}, {format_ns(int(losses['host_ns'].sum()))}"],
        verify="sightline stats engine_steps AFTER: in_step_ns",
        method="bound from the timeline: all of the host's own time in sampling",
    )
