"""What came once takes much of the calls' time: context, code, first allocations.

Symptom
    One cudaMalloc, cudaFree or cudaEventCreate of a tenth of a second.

Why it hurts
    It does not in a long run: the first call creates the context, whichever it is, and loads code.

Evidence
    Calls that set up, of which there are few, or of which one took twenty times the others' mean
    and 5 ms or more.

Threshold
    A tenth of the summed time. It comes first where it is more than all that repeats.

Fix
    Nothing in what repeats: record a longer run.

False positives
    A program that is started for every piece of work pays it each time.

References
    CUDA C++ Programming Guide, "Initialization"; "Lazy Loading".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.ranking import SEGMENT
from sightline.timeline.sum_facts import read_sums

RULE = Rule("summed-start-up", "Start-up")

LEAST_PCT = 10.0
_MOST = 4


def check(run: Run) -> Iterator[Finding]:
    """At most one remark."""
    facts = read_sums(run)
    if facts is None or 100 * facts.once_ns < LEAST_PCT * facts.repeated_ns or not facts.once_ns:
        return
    once = facts.calls.filter(pl.col("once_ns") > 0).sort(
        "once_ns", "name", descending=[True, False]
    )
    rows = once.head(_MOST).rows(named=True)
    lines = [
        f"{row['name']}: {format_ns(row['once_ns'])} in {format_several(row['once_calls'], 'call')}"
        for row in rows
    ]
    rest = format_ns(facts.repeated_ns)
    work = f"is {format_ns(facts.gpu_ns)}" if facts.gpu_ns else "is in none of the tables"
    yield build_finding(
        RULE,
        f"Start-up takes {format_ns(facts.once_ns)} of calls that come once, most of it in "
        f"{rows[0]['name']}; the GPU's work {work}.",
        Evidence(
            [*lines, f"the longer of the GPU's work and the calls that repeat: {rest}"],
            where={SEGMENT: "start-up"},
        ),
        Advice(
            fix="nothing in the repeating part: the first call creates the context and loads code, "
            "whichever it is; measure with a problem of real size, or many rounds in one process",
            verify="sightline stats call_tally AFTER: max_ns of these calls",
            cause="context, code and first allocations",
        ),
        price=(Price(facts.once_ns, "ns"), None),
        severity="info",
        states_limit=facts.once_ns >= facts.repeated_ns,
    )
