"""Global accesses fetch more than they use.

Symptom
    More 32-byte sectors of global memory are moved than the accessed bytes need.

Why it hurts
    Every needless one takes bandwidth of the L2.

Evidence
    Theoretical and ideal sectors, summed over the kernel and by instruction (`sightline stats
    memory_hierarchy`).

Threshold
    Nsight Compute 2024.1 (rule UncoalescedGlobalAccess) speaks at any excess; here from 5 % of
    all on, below which nothing is to be won. Estimate: excess / all, local, weighed with the
    throughput of the L2.

Fix
    Let neighbouring threads access neighbouring addresses; use structures of arrays; stage
    through shared memory.

False positives
    Accesses that hit in the cache anyway; random access by nature.

References
    CUDA C++ Best Practices Guide 12.9, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.ncu._excess import worst_places
from sightline.rules.ncu._shared import Hit, cases, findings
from sightline.units import format_count, format_pct

RULE = Rule("ncu-uncoalesced-global", "Global accesses fetch more than they use")
EXCESS_PCT = 5.0
_ALL = "memory_l2_theoretical_sectors_global"
_IDEAL = "memory_l2_theoretical_sectors_global_ideal"
_WEIGHT = "lts__throughput.avg.pct_of_peak_sustained_elapsed"


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
        evidence = f"{format_count(round(total - ideal))} of {format_count(round(total))} sectors"
        if case.kernel_id in places:
            evidence += f", most by {places[case.kernel_id]}"
        weight = case.get(_WEIGHT)
        hits.append(Hit(case, share, 100.0 if weight is None else weight, evidence))
    yield from findings(
        RULE,
        hits,
        every,
        lambda h: f"{format_pct(h.local_pct)} of the sectors are needless: {h.evidence}.",
        "let neighbouring threads access neighbouring addresses; use structures of arrays; stage "
        "through shared memory",
        "sightline stats memory_hierarchy AFTER: sectors beyond the ideal",
    )
