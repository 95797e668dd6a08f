"""Waves run with few of their 64 lanes.

Symptom
    On average fewer than 48 lanes of a wave take part in a vector instruction.

Why it hurts
    An instruction costs the same with one lane as with 64.

Evidence
    VALU Active Threads (`sightline stats amd_speed_of_light`).

Threshold
    Under three quarters of the lanes (24 of 32 in Nsight Compute 2024.1, rule ThreadDivergence).
    Estimate: 1 − lanes / 64, local, weighed with the use of the vector unit.

Fix
    Sort or group work so that the lanes of a wave take the same path; make loops of equal length.

False positives
    Work-groups smaller than a wave: choose multiples of 64.

References
    ROCm Compute Profiler, "VALU Active Threads"; AMD CDNA 3 ISA, "EXEC mask".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-divergence", "Lanes diverge")
LEAST_SHARE = 0.75
_FIGURE = "VALU Active Threads"


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    lanes, width = kernel.value(_FIGURE), case.facts.device.get("warp_size") or 64
    if lanes is None or lanes >= LEAST_SHARE * width:
        return None
    used = kernel.value("VALU Utilization")
    evidence = f"{lanes:.1f} of {width} lanes are active"
    return Hit(case, 100 * (1 - lanes / width), 100.0 if used is None else used, evidence)


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=(_FIGURE,),
    summary="In vector instructions {}.",
    fix="let the lanes of a wave take the same path: group equal work, even out loop lengths",
    verify="sightline stats amd_speed_of_light AFTER: VALU Active Threads near 64",
)
