"""Shared accesses take more turns than needed.

Symptom
    More wavefronts of shared memory are moved than the accessed bytes need.

Why it hurts
    Every needless one takes bandwidth of the L1.

Evidence
    Theoretical and ideal wavefronts, summed over the kernel and by instruction (`sightline stats
    memory_hierarchy`).

Threshold
    Nsight Compute 2024.1 (rule UncoalescedSharedAccess) speaks at any excess; here from 5 % of
    all on, below which nothing is to be won. Estimate: excess / all, local, weighed with the
    throughput of the L1.

Fix
    Change the layout or width of shared accesses so that a warp is served in one turn.

False positives
    Accesses that hit in the cache anyway; random access by nature.

References
    CUDA C++ Best Practices Guide 12.9, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.ncu._excess import worst_places
from sightline.rules.ncu._shared import Hit, cases, findings
from sightline.units import format_count, format_pct

RULE = Rule("ncu-uncoalesced-shared", "Shared accesses take more turns than needed")
EXCESS_PCT = 5.0
_ALL = "memory_l1_wavefronts_shared"
_IDEAL = "memory_l1_wavefronts_shared_ideal"
_WEIGHT = "l1tex__throughput.avg.pct_of_peak_sustained_active"


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    if not cases(run, (_ALL, _IDEAL), "--section SourceCounters"):
        return
    every = cases(run, (_ALL, _IDEAL, _WEIGHT), "")
    places = worst_places(run, _ALL, _IDEAL)
    hits = []
    for case in every:
        total, ideal = case.get(_ALL), case.get(_IDEAL)
        if not total or ideal is None or 100 * (total - ideal) / total < EXCESS_PCT:
            continue
        share = 100 * (total - ideal) / total
        evidence = (
            f"{format_count(round(total - ideal))} of {format_count(round(total))} wavefronts"
        )
        if case.kernel_id in places:
            evidence += f", most by {places[case.kernel_id]}"
        weight = case.get(_WEIGHT)
        hits.append(Hit(case, share, 100.0 if weight is None else weight, evidence))
    yield from findings(
        RULE,
        hits,
        every,
        lambda h: f"{format_pct(h.local_pct)} of the wavefronts are needless: {h.evidence}.",
        "change the layout or width of shared accesses so that a warp is served in one turn",
        "sightline stats memory_hierarchy AFTER: wavefronts beyond the ideal",
    )
