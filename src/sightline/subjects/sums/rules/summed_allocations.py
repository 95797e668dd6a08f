"""Device memory is allocated and freed again and again.

Symptom
    As many calls of cudaMalloc as of cudaFree, and thousands of both.

Why it hurts
    Each may go to the driver, and cudaFree waits until the device is done: nothing is queued
    meanwhile.

Evidence
    The table of calls: allocations and releases without those that came once.

Threshold
    More than ten calls of a name; 5 % of the summed time.

Fix
    Allocate once, before the loop.

False positives
    Part of cudaFree's time is its wait for kernels.

References
    CUDA C++ Best Practices Guide, "Device Memory Allocation"; CUDA Runtime API, "Stream Ordered
    Memory Allocator".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_note, format_ns, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.sum_facts import read_sums

RULE = Rule("summed-allocations", "Allocating and freeing memory")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    facts = read_sums(run)
    if facts is None:
        return
    calls = facts.calls.filter(pl.col("allocates") & (pl.col("calls") > pl.col("once_calls")))
    calls = calls.with_columns(
        ns=pl.col("ns") - pl.col("once_ns"), calls=pl.col("calls") - pl.col("once_calls")
    ).sort("ns", "name", descending=[True, False])
    cost = sum_column(calls, "ns")
    if calls.is_empty() or 100 * cost < NOTABLE_PCT * facts.repeated_ns:
        return
    launches = sum_column(facts.kernels, "calls")
    lines = [
        f"{row['name']}: {format_ns(row['ns'])} in {format_several(row['calls'], 'call')}"
        for row in calls.rows(named=True)
    ]
    if launches:
        lines.append(format_note(launches, "kernels were launched meanwhile"))
    if calls.get_column("name").str.contains("Free$").any() and facts.kernel_ns:
        lines.append("part of cudaFree is its wait for the GPU, which stays")
    yield build_finding(
        RULE,
        f"{format_several(sum_column(calls, 'calls'), 'call')} that allocate and free memory take "
        f"{format_ns(cost)}.",
        Evidence(lines),
        Advice(
            fix=choose_fix(
                run,
                "allocate once, before the loop, and reuse the memory; where sizes vary, "
                "cudaMallocAsync from a pool whose release threshold is raised "
                "(cudaMemPoolAttrReleaseThreshold)",
                pytorch="keep tensors, or write into them (out=): PyTorch's allocator only asks "
                "the driver where none of its blocks fits",
            ),
            verify="sightline stats call_tally AFTER: calls of cudaMalloc and cudaFree",
        ),
        price=price_part(cost, cost, facts.repeated_ns, "ns"),
        confidence="medium",
        method="bound from sums: all of these calls except one-time ones",
    )
