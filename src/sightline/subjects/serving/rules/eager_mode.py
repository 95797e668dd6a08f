"""No step of decode replays a graph: the host launches each kernel.

Symptom
    The device idles between the kernels of a step of decode.

Why it hurts
    A step of decode has hundreds of short kernels, and the host needs longer to launch one than
    the device to run it.

Evidence
    Steps of decode whose kernels were launched one by one, and the time in them in which nothing
    ran. The gain is that time: a replayed graph has hardly any.

Threshold
    5 % of the window (TraceLens agent, 2026-08); steps of 50 launches or more (ours: a model of two
    layers launches about as many).

Fix
    Let the engine capture graphs.

False positives
    A server that was started so on purpose, to be profiled with Python's lines.

References
    vLLM, CUDA Graphs. SGLang, Server Arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.decode import LEAST_LAUNCHES, list_decodes
from sightline.subjects.serving.findings import list_steps, report_loss

RULE = Rule("eager-mode", "Decode runs without graphs")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    decodes = list_decodes(steps)
    if decodes.is_empty() or (decodes["graph_launches"] > 0).any():
        return  # graph-miss speaks of an engine that captures some
    losses = decodes.filter(pl.col("launches") >= LEAST_LAUNCHES)
    if losses.is_empty():
        return
    launches = int(losses["launches"].median() or 0)  # type: ignore[arg-type]
    yield from report_loss(
        run,
        RULE,
        losses.with_columns(cost_ns="idle_ns", gain_ns="idle_ns"),
        f"{format_several(losses.height, 'step')} of decode launch "
        f"{format_several(launches, 'kernel')} each one by one.",
        [
            f"the median step takes {format_ns(int(losses['duration_ns'].median() or 0))}, and "  # type: ignore[arg-type]
            f"something runs for {format_ns(int(losses['busy_ns'].median() or 0))} of it"  # type: ignore[arg-type]
        ],
        verify="sightline stats engine_steps AFTER: graph_launches over 0, duration_ns",
        method="bound from the timeline: the time in these steps in which nothing runs",
    )
