"""Accesses to LDS collide in its banks.

Symptom
    At least 10 % of the cycles in which LDS works are only there because of bank conflicts.

Why it hurts
    Lanes of a wave that use different words of one bank are served one after the other.

Evidence
    SQ_LDS_BANK_CONFLICT over SQ_LDS_IDX_ACTIVE, and how much of the time LDS works at all.

Threshold
    Conflicts ≥ 10 % of the cycles (Nsight Compute 2024.1, rule SharedMemoryConflicts). Estimate:
    that share, local, weighed with the cycles in which LDS works.

Fix
    Pad or swizzle the layout so that the lanes of a wave use different banks.

False positives
    64-bit and 128-bit accesses take several cycles by themselves, which are not counted here.

References
    ROCm Compute Profiler, "Local data share (LDS)", "LDS bank conflicts".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_amd_cases, make_findings

RULE = Rule("amd-lds-conflicts", "LDS bank conflicts")
SHARE_PCT = 10.0


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_amd_cases(run, "LDS Utilization")
    hits = []
    for case, kernel in every:
        conflicts, active = case.get("SQ_LDS_BANK_CONFLICT"), case.get("SQ_LDS_IDX_ACTIVE")
        if not conflicts or not active or 100 * conflicts / active < SHARE_PCT:
            continue
        share = 100 * conflicts / active
        evidence = f"{format_pct(share)} of the cycles of LDS"
        hits.append(Hit(case, share, kernel.value("LDS Utilization"), evidence))
    yield from make_findings(
        RULE,
        hits,
        [case for case, _ in every],
        lambda h: f"{h.evidence} are due to bank conflicts.",
        "pad or swizzle the layout in LDS",
        "sightline stats amd_speed_of_light AFTER: LDS Bank Conflicts/Access near 0",
    )
