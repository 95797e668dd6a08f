"""The kernel multiplies and adds on the vector unit, and its matrix cores are idle.

Symptom
    The vector unit is what bounds the kernel, half of its instructions or more are fused
    multiply-adds, and the matrix cores did nothing.

Why it hurts
    On MI300X the matrix cores do 8 times as many operations in FP16 and BF16 as the vector unit
    does in FP32, and twice as many in FP32 and FP64.

Evidence
    VALU and MFMA utilization, fused multiply-adds among the vector instructions.

Threshold
    VALU utilization ≥ 60 % (Nsight Compute 2024.1, rule SOLBottleneck: a unit that is in use);
    fused multiply-adds ≥ half of the vector instructions (ours: a matrix product has little else).
    No gain is claimed: whether the work is a matrix product is not in the counters.

Fix
    Matrix products through hipBLASLt, rocBLAS or Composable Kernel; in own kernels rocWMMA or the
    MFMA intrinsics; tl.dot in Triton.

False positives
    Stencils, polynomials and other work of multiply-adds that is not a matrix product.

References
    AMD CDNA 3 white paper, table of peak rates; ROCm Compute Profiler, "MFMA Utilization".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("amd-matrix-cores-idle", "Matrix cores idle")
FMA_PCT = 50.0
_FMA = tuple(f"SQ_INSTS_VALU_FMA_{t}" for t in ("F16", "F32", "F64"))


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    used, share = kernel.value("VALU Utilization"), _share_fma(case)
    if kernel.value("MFMA Utilization") != 0 or used is None or used < LATENCY_PCT:
        return None
    if share is None or share < FMA_PCT:
        return None
    return Hit(case, 0.0, 0.0, f"{format_pct(share)} of vector instructions are multiply-adds")


def _share_fma(case: Case) -> float | None:
    every = case.get("SQ_INSTS_VALU")
    counted = [n for name in _FMA if (n := case.get(name)) is not None]
    return 100 * sum(counted) / every if every and counted else None


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=("MFMA Utilization",),
    summary="{}, and the matrix cores did nothing.",
    fix="where it is a matrix product: hipBLASLt, rocWMMA or MFMA intrinsics, tl.dot in Triton",
    verify="sightline stats amd_speed_of_light AFTER: MFMA Utilization above 0",
)
