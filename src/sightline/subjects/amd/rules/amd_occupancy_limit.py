"""The launch leaves room for too few waves.

Symptom
    Vector or scalar registers, LDS or the work-group's shape allow few waves per compute unit, and
    the kernel waits.

Why it hurts
    With few waves there is nothing to run while some of them wait.

Evidence
    Theoretical occupancy and its limiter (`sightline stats occupancy`); where they were counted,
    the cycles in which a work-group could not start for lack of it.

Threshold
    Theoretical occupancy < 80 % (Nsight Compute 2024.1, rule TheoreticalOccupancy); both
    throughputs recorded, and under 60 % of their peaks (the same tool's rule SOLBottleneck), as low
    occupancy alone is not harm; a grid that does not fit at once. Estimate: 1 − occupancy, not more
    than what is left to the speed of light; global.

Fix
    Fewer registers (__launch_bounds__, smaller tiles; on CDNA 2 and later accumulation registers
    count, too), less LDS per work-group, another work-group size.

False positives
    Kernels that reach their limit with few waves, as matrix products by matrix cores do.

References
    LLVM, AMDGPUBaseInfo.cpp (IsaInfo); ROCm, "Register pressure in AMD CDNA2 GPUs"; Volkov,
    "Better performance at lower occupancy", GTC 2010.
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import THEORETICAL_PCT, judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("amd-occupancy-limit", "Low theoretical occupancy", explains=("amd-latency",))
_WORDS = {
    "registers": ("vector registers", "VGPRs limit waves"),
    "scalar_registers": ("scalar registers", "SGPRs limit waves"),
    "shared_mem": ("LDS", "LDS limits waves"),
    "warps": ("the work-group's size", "Wave slots limit waves"),
    "barriers": ("the number of work-groups", None),
}
_FIX = {
    "registers": "lower the registers per work-item (__launch_bounds__, smaller tiles)",
    "scalar_registers": "lower the scalar registers: fewer values that all lanes share",
    "shared_mem": "use less LDS per work-group, or more work-items for the same",
    "warps": "choose a work-group size that divides the waves of a compute unit",
    "barriers": "use larger work-groups",
}


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    fit, light = kernel.occupancy, case.light
    if fit is None or fit.pct >= THEORETICAL_PCT or not fit.active_blocks:
        return None
    if light is None or light >= LATENCY_PCT:
        return None
    blocks, units = case.facts.row["grid_x"], case.facts.device.get("sm_count")
    if blocks and units and blocks <= units * fit.active_blocks:
        return None  # all work-groups are resident at once: room for more would stay empty
    evidence = (
        f"{fit.active_warps} of {fit.max_warps} waves fit a compute unit ({format_pct(fit.pct)}), "
        f"limited by {', '.join(_WORDS[n][0] for n in fit.limiters)}"
    )
    waited = [
        pct
        for n in fit.limiters
        if (figure := _WORDS[n][1]) is not None and (pct := kernel.value(figure)) is not None
    ]
    if waited:
        evidence += f", for which work-groups waited in {format_pct(max(waited))} of the cycles"
    estimate = min(100 - fit.pct, case.headroom)
    return Hit(case, estimate, None, evidence, ", ".join(fit.limiters))


check = judge_amd_kernels(
    RULE,
    _hit,
    fix=lambda h: "; ".join(_FIX[n] for n in h.subject.split(", ")),
    verify="sightline stats occupancy AFTER: theoretical_pct, and speed_of_light to see if it "
    "helped",
)
