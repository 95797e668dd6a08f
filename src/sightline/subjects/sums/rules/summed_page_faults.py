"""Kernels wait for pages of unified memory, by a table of sums.

Symptom
    Migrations of unified memory, and groups of page faults of the GPU.

Why it hurts
    A kernel that touches a page which is elsewhere stops until it is there.

Evidence
    The tables of unified memory: fault groups, and migrations by direction.

Threshold
    5 % of the summed time.

Fix
    Prefetch before the kernel (cudaMemPrefetchAsync), or initialize on the GPU.

False positives
    Data that is touched once must move once.

References
    CUDA C++ Programming Guide, "Unified Memory Programming".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.sum_facts import read_sums

RULE = Rule("summed-page-faults", "Pages of unified memory")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    facts = read_sums(run)
    if facts is None:
        return
    moved = facts.copies.filter(pl.col("unified"))
    # Faults stop kernels, in whose time they lie; migrations that were asked for do not.
    cost = max(min(facts.fault_ns, facts.kernel_ns), sum_column(moved, "ns"))
    if not cost or 100 * cost < NOTABLE_PCT * facts.repeated_ns:
        return
    lines = [
        f"{format_several(row['calls'], 'migration')} {row['way']}: {format_ns(row['ns'])}"
        + ("" if row["bytes"] is None else f", {format_bytes(row['bytes'])}")
        for row in moved.rows(named=True)
    ]
    if facts.faults:
        groups = f"{format_several(facts.faults, 'group')} of page faults"
        faults = format_several(facts.faults, "page fault")
        took = f"{groups}: {format_ns(facts.fault_ns)}"
        lines.insert(0, took if facts.fault_ns else f"{faults} of the GPU")
    yield build_finding(
        RULE,
        f"Pages of unified memory that are not where they are used cost up to {format_ns(cost)}.",
        Evidence([*lines, f"kernels together: {format_ns(facts.kernel_ns)}"]),
        Advice(
            fix="move data before it is used (cudaMemPrefetchAsync, cudaMemAdvise), initialize it "
            "on the GPU, or allocate with cudaMalloc and copy it",
            verify="sightline stats summed_runs AFTER: kernel_ns and copy_ns",
        ),
        price=price_part(cost, cost, facts.repeated_ns, "ns"),
        confidence="medium",
        method="bound from sums: no fault, and no migration while a kernel waits",
    )
