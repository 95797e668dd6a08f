"""The kernel moves data as fast as the device memory can: it is at its limit already.

Symptom
    Reads and writes of the L2 beyond it reach 80 % of the device memory's bandwidth or more.

Why it hurts
    It does not: this kernel cannot run much faster as it is. Tuning its arithmetic, its occupancy
    or its work-group size will change nothing.

Evidence
    L2-Fabric read and write bandwidth, % of the peak (`sightline stats amd_speed_of_light`).

Threshold
    80 % (Nsight Compute 2024.1, rule SOLBottleneck: above it a unit is called well utilized, and
    only less work on it gains more).

Fix
    Move less: fuse the kernel with its neighbors so that data passes once, keep what is read again
    in registers, LDS or L2, use a narrower type.

False positives
    The fabric also carries what the Infinity Cache answers, and copies between dies: there the
    memory itself may do less.

References
    ROCm Compute Profiler, "L2 cache (TCC)", "L2-Fabric transactions"; Williams, Waterman,
    Patterson, "Roofline" (2009).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-memory-limit", "Bound by device memory")


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    used = kernel.fabric_pct
    if used is None or used < LIMIT_PCT:
        return None
    # No estimate: at the limit there is nothing left but to move less.
    return Hit(case, 0.0, 0.0, f"device memory runs at {format_pct(used)} of its peak")


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=("L2-Fabric Read BW", "L2-Fabric Write BW"),
    summary="{}: this is the kernel's limit.",
    fix="move less data: fuse it with its neighbors, keep reused data on chip, store "
    "in a narrower type",
    verify="sightline stats amd_speed_of_light AFTER: less traffic of L2-Fabric",
    about_limit=True,
)
