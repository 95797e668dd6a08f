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

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-lds-conflicts", "LDS bank conflicts")
SHARE_PCT = 10.0


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    conflicts, active = case.get("SQ_LDS_BANK_CONFLICT"), case.get("SQ_LDS_IDX_ACTIVE")
    if not conflicts or not active or 100 * conflicts / active < SHARE_PCT:
        return None
    share = 100 * conflicts / active
    evidence = f"{format_pct(share)} of the cycles of LDS"
    return Hit(case, share, kernel.value("LDS Utilization"), evidence)


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=("LDS Utilization",),
    summary="{} are due to bank conflicts.",
    fix="pad or swizzle the layout in LDS",
    verify="sightline stats amd_speed_of_light AFTER: LDS Bank Conflicts/Access near 0",
)
