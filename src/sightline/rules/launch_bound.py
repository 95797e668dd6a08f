"""The device finishes each operation before the host has launched the next one.

Symptom
    Many short kernels with gaps between them; the queue is empty at most launches.

Why it hurts
    Every launch costs the host several µs, and the framework around it more. When kernels are
    shorter than that, the device waits for the host, and a faster device changes nothing.

Evidence
    Idle time whose cause is a late launch or launch latency; median time between launch calls
    against median kernel length; share of launches that met an empty queue.

Threshold
    Late idle over 15 % of the window (TraceLens agent, 2026-08: idle flagged above 15 %), queue
    empty at more than half of the launches, and launches further apart than kernels are long.

Fix
    Replay the step as a CUDA graph (torch.compile(mode="reduce-overhead"), torch.cuda.graphs),
    fuse small kernels (torch.compile), or enlarge the batch.

False positives
    The profiler itself slows launches: with Python stacks recorded, the host is slower than
    without. Compare with a recording without stacks before investing much.

References
    PyTorch documentation, "Accelerating PyTorch with CUDA Graphs" (2021);
    NVIDIA, "Getting Started with CUDA Graphs" (2019).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.algebra.scalars import total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.units import format_count, format_ns, format_pct

RULE = Rule("launch-bound", "The host cannot launch work as fast as the device does it")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    if not run.rows("host_ops"):
        yield Finding(
            RULE.name, RULE.title, "info", "not judged", abstained=True,
            reason="no launch calls were recorded: record CPU activity too",
        )  # fmt: skip
        return
    bound = run.ask("launch_pressure").filter("launch_bound").sort("late_idle_ns", descending=True)
    if bound.is_empty():
        return
    worst = bound.row(0, named=True)
    windows = total(run.ask("breakdown"), "window_ns")
    cost = total(bound, "late_idle_ns")
    pct = 100 * cost / max(windows, 1)
    busy = _host_time(run, worst["rank"])
    yield Finding(
        rule=RULE.name,
        title=RULE.name,
        severity="critical" if pct >= 50 else "warning",
        summary=(
            "The GPU finishes each operation before the host has launched the next: "
            f"median operation {format_ns(worst['median_op_ns'])}, median launch interval "
            f"{format_ns(worst['median_interval_ns'])}; the queue was empty at "
            f"{format_count(worst['empty_queue'])} of {format_count(worst['launches'])} launches."
        ),
        cost_ns=cost,
        cost_pct=pct,
        gain_ns=worst["late_idle_ns"],
        confidence="high" if worst["launches"] >= 100 else "medium",
        evidence=tuple(f"host time in  {line}" for line in busy),
        where={"ranks": bound.get_column("rank").unique().sort().to_list()},
        fix=(
            'replay the step as a CUDA graph: torch.compile(model, mode="reduce-overhead"), or '
            "larger batches if latency allows"
        ),
        verify="sightline stats breakdown AFTER: idle_pct under 15",
    )


def _host_time(run: Run, rank: int) -> list[str]:
    """Where the launching rank's host time goes: operators and calls by their own time."""
    host = run.table("host_ops").filter(
        (pl.col("rank") == rank) & pl.col("layer").is_in(["op", "runtime", "driver"])
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    below = host.drop_nulls("parent_id").group_by(host_op_id="parent_id").agg(below=length.sum())
    own = (
        # Waiting for the device is no work of the host.
        host.filter(~pl.col("name").str.contains("Synchronize"))
        .join(below, on="host_op_id", how="left")
        .group_by("name")
        .agg(own=(length - pl.col("below").fill_null(0)).sum())
        .sort("own", "name", descending=[True, False])
    )
    whole = max(total(own, "own"), 1)
    return [f"{name} {format_pct(100 * ns / whole)}" for name, ns in own.head(4).rows()]
