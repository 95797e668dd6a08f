"""The CPU computes nearly all the time: only its operators can make the program faster.

Symptom
    Operators with much to do fill the steps.

Why it hurts
    It does not: it says where to look next, which is not data, Python or other ranks.

Evidence
    The share of the main thread's time in operators that work, and their kinds.

Threshold
    Over 80 % of the window (ours: what else there is then gains at most a quarter of that).

Fix
    A GPU; bfloat16 on CPUs with AMX or AVX512_BF16; channels_last for convolutions; as many
    threads as there are cores (OMP_NUM_THREADS); a smaller model.

False positives
    Operators that wait for cores that others use are long, and look busy.

References
    PyTorch Performance Tuning Guide, "CPU specific optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.subjects.host.rules._shared import list_names, take_share
from sightline.timeline.host_parts import KINDS, OTHER, has_only_host, list_segments, uses_device

RULE = Rule("host-busy", "The CPU computes nearly all the time")

BUSY_PCT = 80.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    # What a program of a GPU does on the CPU is not what binds it, for all that is recorded.
    if not has_only_host(run) or uses_device(run):
        return
    kinds = [kind for kind, _ in KINDS] + [OTHER]
    segments = list_segments(run).filter(pl.col("part").is_in(kinds))
    share = take_share(run, segments)
    if share.pct < BUSY_PCT:
        return
    each = segments.group_by("part").agg(pl.col("own_ns").sum())
    top = each.sort("own_ns", "part", descending=[True, False]).head(MAX_ROWS)
    lines = [f"{format_pct(100 * ns / share.cost_ns)} {kind}" for kind, ns in top.rows()]
    yield build_finding(
        RULE,
        f"Operators compute for {format_pct(share.pct)} of the main thread's time, so only faster "
        f"ones can shorten it. {top.item(0, 'part').capitalize()} takes "
        f"{format_pct(100 * top.item(0, 'own_ns') / share.cost_ns)} of that.",
        Evidence((*lines, *list_names(segments)), where={"busy_pct": share.pct}),
        Advice(
            fix="a GPU; bfloat16 where the CPU has instructions for it; channels_last for "
            "convolutions; OMP_NUM_THREADS at the number of cores",
            verify="sightline stats host_breakdown AFTER",
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )
