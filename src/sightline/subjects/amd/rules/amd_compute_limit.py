"""One unit of the compute units is busy nearly all the time.

Symptom
    The vector unit (VALU), the matrix cores (MFMA), the scalar unit (SALU), or the issue of memory
    instructions or branches is in use for 80 % of the cycles or more.

Why it hurts
    The kernel cannot run faster than this unit. Where it is the one that does the kernel's own
    work, this is good: the kernel is at its limit, and only less work or another unit helps.

Evidence
    Utilization of each unit (`sightline stats amd_speed_of_light`).

Threshold
    80 % (Nsight Compute 2024.1, rule HighPipeUtilization: from there on a pipe is a bottleneck).

Fix
    Move work to another unit: matrix cores for matrix products, packed float math, scalar
    registers for what is the same in all lanes, wider loads instead of more of them.

False positives
    None to speak of, but no gain is claimed: how much another unit could take over is not in the
    counters.

References
    ROCm Compute Profiler, "Pipeline metrics"; AMD CDNA 3 ISA, "Instruction Issue".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-compute-limit", "Bound by one unit")
_FIX = {
    "MFMA Utilization": "nothing to fix: the matrix cores are busy; lower precision gives more",
    "VALU Utilization": "use the matrix cores where these are matrix products, or packed math",
    "VMEM Utilization": "fewer and wider memory instructions (dwordx4), data in registers or LDS",
}
_OTHERS = "move work to another unit, or reduce it"


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    name, pct = kernel.compute or ("", 0.0)
    return Hit(case, 0.0, 0.0, f"{name} is {format_pct(pct)}", name) if pct >= LIMIT_PCT else None


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=("VALU Utilization", "MFMA Utilization"),
    fix=lambda h: _FIX.get(h.subject, _OTHERS),
    verify="sightline stats amd_speed_of_light AFTER: less use of this unit",
    about_limit=True,
)
