"""The profiler itself makes the device wait.

Symptom
    Gaps in which the profiler's own ranges (buffer flushes, instrumentation) take most of the
    time.

Why it hurts
    It does not hurt the program, only what is measured of it: without the profiler the gaps are
    not there.

Evidence
    Gaps of which more than half is covered by ranges of the layer `overhead`.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Record fewer steps, without stacks and shapes; flush between steps, not inside.

False positives
    None known: the profiler itself reports these ranges as overhead.

References
    CUPTI, CUpti_ActivityOverhead.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.replay import shorten_thinking
from sightline.timeline import causes
from sightline.timeline.host_ranges import measure_in_ranges

RULE = Rule("profiler-overhead", "Profiler overhead", causes=(causes.PROFILER,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        overhead = run.table("host_ops").filter(pl.col("layer") == "overhead")
        return shorten_thinking(nodes, measure_in_ranges(nodes, overhead, ["rank"]))

    yield make_finding(
        run,
        RULE,
        f"The GPU waits for the profiler for {format_pct(mine.pct)} of the window.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(
            mine.evidence, rows=mine.rows, where=mine.where("profiler_overhead"), calls=mine.calls
        ),
        Advice(
            fix="record fewer steps, or without stacks; the program itself does not need fixing "
            "here",
            verify="sightline stats idle AFTER: total_ns of profiler_overhead",
            cause="the profiler flushes its buffers or instruments code inside the window",
            sources=("CUPTI: CUpti_ActivityOverhead",),
        ),
    )
