"""Device memory is allocated and freed inside the step.

Symptom
    cudaMalloc and cudaFree between kernels, and the device idle meanwhile.

Why it hurts
    An allocation takes the driver's lock and often milliseconds; a free waits for the whole
    device first, so it synchronises as well (an implicit synchronisation).

Evidence
    Gaps of which allocation calls of the launching thread take more than half. The gain is a
    replay in which these calls take no time and wait for nothing.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Allocate before the step and reuse; keep shapes steady; PYTORCH_CUDA_ALLOC_CONF=
    expandable_segments:True, a memory limit that leaves the caching allocator room (its retries
    free everything), cudaMallocAsync or a pool in C++.

False positives
    Warm-up, in which the caching allocator grows: choose --window steady.

References
    CUDA C++ Programming Guide, "Implicit Synchronization"; PyTorch notes, "CUDA semantics:
    memory management".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.algebra.lookup import Texts
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.rules.gaps import LOOK_PCT, claim_gaps
from sightline.timeline import causes
from sightline.timeline.api_calls import allocates
from sightline.timeline.replay import free_calls
from sightline.units import format_count, format_ns, format_pct

RULE = Rule(
    "allocator-churn",
    "Memory allocation inside the step",
    causes=(causes.ALLOCATION,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE, least_pct=LOOK_PCT)
    if mine is None:
        return
    host = run.table("host_ops")
    calls = (
        host.filter(allocates(Texts(host.get_column("name"))))
        .filter(pl.col("layer").is_in(["runtime", "driver"]))
        .group_by("name")
        .agg(n=pl.len(), ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ns", "name", descending=[True, False])
    )

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return free_calls(nodes, allocates(Texts(nodes.get_column("name"))))

    found = make_finding(
        run,
        RULE,
        f"For {format_pct(mine.pct)} of the window the GPU waits while the host allocates or "
        "frees memory.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(
            [
                *mine.evidence[:1],
                *(
                    f"{format_count(n)} × {name}, {format_ns(ns)}"
                    for name, n, ns in calls.head(3).rows()
                ),
            ],
            rows=mine.rows,
            where=mine.where("allocation"),
            calls=mine.calls,
        ),
        Advice(
            fix="allocate once before the step, warm up before measuring; "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against churn",
            verify="sightline stats idle AFTER: total_ns of allocation",
            cause="calls to the driver's allocator inside the step; a free waits for "
            "the device first",
            sources=("CUDA C++ Programming Guide: Implicit Synchronization",),
        ),
    )
    yield from keep_notable(run, found)
