"""Very many small copies, whose calls cost more than what they move.

Symptom
    Thousands of calls of cudaMemcpy, with a mean size of bytes.

Why it hurts
    A call takes microseconds, whatever it copies: the host does nothing else.

Evidence
    The table of calls: the time in copying calls beyond that of all kernels, for which they may
    wait.

Threshold
    1,000 copies of 64 KiB or less on average (CUDA Runtime API, "API synchronization behavior"), or
    of less than 5 µs where sizes are not known; 5 % of the summed time.

Fix
    Collect what is copied in one buffer, and copy that once.

False positives
    Scalars that the host needs at different moments.

References
    CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.copies import SMALL_BYTES
from sightline.timeline.sum_facts import COPIES, read_sums

RULE = Rule("summed-small-copies", "Many small copies")

LEAST_COPIES = 1_000
SHORT_NS = 5_000


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the direction with most copies."""
    facts = read_sums(run)
    if facts is None:
        return
    each = pl.col("bytes") / pl.col("calls"), pl.col("ns") / pl.col("calls")
    mean = pl.coalesce(each[0] / SMALL_BYTES, each[1] / SHORT_NS)
    small = facts.copies.filter(
        ~pl.col("unified") & (pl.col("calls") >= LEAST_COPIES) & (mean <= 1)
    ).sort("calls", descending=True)
    if small.is_empty():
        return
    row = small.row(0, named=True)
    calls, ns = facts.sum_calls(COPIES)
    # A copying call may wait for kernels before it: that is not its own.
    all_ns = max(ns - facts.kernel_ns, 0)
    cost = round(all_ns * min(row["calls"] / max(calls, 1), 1))
    if 100 * cost < NOTABLE_PCT * facts.repeated_ns:
        return
    size = (
        ""
        if row["bytes"] is None
        else f" of {format_bytes(row['bytes'] // row['calls'])} on average"
    )
    yield build_finding(
        RULE,
        f"{format_several(row['calls'], 'copy', 'copies')}{size} hold the host up for "
        f"{format_ns(cost)}: {format_ns(cost // row['calls'])} a call.",
        Evidence(
            [
                f"{format_several(calls, 'copying call')}: {format_ns(ns)}; the copies themselves: "
                f"{format_ns(row['ns'])}",
                f"kernels together: {format_ns(facts.kernel_ns)}",
            ]
        ),
        Advice(
            fix="collect what is copied in one buffer and copy that once, or compute it where it "
            "is needed",
            verify="sightline stats call_tally AFTER: calls of cudaMemcpy",
        ),
        price=price_part(cost, cost - cost // row["calls"], facts.repeated_ns, "ns"),
        confidence="medium",
        method="bound from sums: all copies in one call",
    )
