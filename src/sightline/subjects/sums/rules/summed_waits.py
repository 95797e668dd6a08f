"""What the host waited for, by a table of calls that has no table of the GPU's work beside it.

Symptom
    `nsys stats` or nvprof printed the calls of CUDA alone, and copies or synchronizations take most
    of what repeats.

Why it hurts
    A synchronous copy waits until the kernels before it have ended: its time in this table is
    theirs as much as its own, and none of it is a cost of the call.

Evidence
    The calls' sums (`sightline stats sums`). A call that takes many times the others' mean waited.

Threshold
    Half of what the calls that repeat take, and 1 ms (ours: less is not a wait for work).

Fix
    The tables of kernels and copies; then the longest of these.

False positives
    Copies of very different sizes: a long one may be no wait.

References
    CUDA Runtime API, "API synchronization behavior": cudaMemcpy returns when the copy is done, and
    a copy on the default stream begins when what was launched before it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.timeline.sum_facts import COPIES, WAITS, read_sums

RULE = Rule("summed-waits", "The host waits for the GPU")

LEAST, LEAST_NS = 0.5, 1_000_000
_WAITS = r"Async|Prefetch"
_TIMES = 5  # times the others' mean: such a copy waited for something else (ours)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, where nothing of the GPU is in the tables."""
    facts = read_sums(run)
    if facts is None or facts.gpu_ns:
        return
    blocking = (pl.col("group") == WAITS) | (
        (pl.col("group") == COPIES) & ~pl.col("name").str.contains(_WAITS)
    )
    waits = facts.calls.filter(blocking).sort("ns", "name", descending=[True, False])
    spent = sum_column(waits, "ns")
    if spent < LEAST_NS or spent < LEAST * facts.repeated_ns:
        return
    names = waits.get_column("name").head(2).to_list()
    yield build_finding(
        RULE,
        f"{format_pct(100 * spent / facts.repeated_ns)} of the time of repeating calls is spent "
        f"in {' and '.join(names)}: the host waits there for the kernels before them, or "
        "for the copies themselves. The calls alone do not say which of the two.",
        Evidence(list(_list_evidence(waits)), where={"call": names[0]}),
        Advice(
            fix="look at the kernels and copies of the same recording, the longest first:  nsys "
            "stats --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum REPORT",
            verify="sightline stats sums AFTER",
        ),
        price=(make_price(spent, "ns", 100 * spent / facts.repeated_ns), None),
        severity="info",
        states_limit=True,
    )


def _list_evidence(waits: pl.DataFrame) -> Iterator[str]:
    for row in waits.head(3).rows(named=True):
        told = f"{row['name']}: {format_ns(row['ns'])} in {format_several(row['calls'], 'call')}"
        longest, others = row["longest_ns"], (row["calls"] or 0) - 1
        if longest is not None and others > 0 and longest * others > _TIMES * (row["ns"] - longest):
            told += (
                f", {format_ns(longest)} of it in one call, far longer than the others: probably "
                "a wait for earlier work"
            )
        yield told
