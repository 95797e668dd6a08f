"""Threads of a warp read constants at different addresses.

Symptom
    The constant cache (IDC) is the busiest part of the SM.

Why it hurts
    It gives a warp one address at a time: with 32 different ones a load takes 32 turns.

Evidence
    Busy cycles of the constant cache's requests.

Threshold
    60 % of its peak or more (Speed of Light: well utilized), and the busiest part of the SM.
    Estimate: a 32nd of the turns is left, one a load; the kernel shrinks to what the next part
    or unit needs, which may then be as busy as the constant cache is today.

Fix
    Put tables that threads index differently into shared memory, or read them as const
    __restrict__ through the L1; keep __constant__ for what all threads of a warp read at once.

False positives
    Kernels that read very many constants, each at one address.

References
    CUDA C++ Programming Guide, "Device Memory Accesses: Constant Memory"; Nsight Compute, Kernel
    Profiling Guide, "Metrics Decoder" (idc).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import CONSTANTS, PARTS, SM, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import WARP
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("ncu-constant-divergence", "Constants read at different addresses", explains=WAITS)
# The address divergence unit serves the loads of constants (Kernel Profiling Guide, "Pipelines"):
# it is as busy as their cache is, with the same work.
_WITH_THEM = (CONSTANTS, "adu")


def _hit(case: Case) -> Hit | None:
    used = case.use(CONSTANTS)
    others = [case.use(part) or 0.0 for part in PARTS if part not in _WITH_THEM]
    if used is None or used < LATENCY_PCT or used < max(others):
        return None
    return relieve(
        case,
        {SM: 100 * (1 - 1 / WARP)},
        f"the constant cache is busy for {format_pct(used)} of the time",
        parts=dict.fromkeys(_WITH_THEM, 100 * (1 - 1 / WARP)),
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=PARTS[CONSTANTS],
    opcodes=("LDC",),
    record="--section SpeedOfLight",
    fix="put tables that threads index differently into shared memory, or read them as const "
    "__restrict__; keep __constant__ for what all threads of a warp read at once",
    verify="sightline stats speed_of_light AFTER: another part of the SM",
)
