"""The kernel uses neither compute nor memory well: it waits for latency.

Symptom
    Both throughputs are under 60 % of peak although the grid fills the device.

Why it hurts
    There is time in which all warps wait and none is ready to run.

Evidence
    Speed of light of both sides (`sightline stats speed_of_light`); the reason is in ncu-stall.

Threshold
    SM and memory throughput both under 60 %, at least one wave (Nsight Compute 2024.1, rule
    SOLBottleneck). Estimate: what is left up to the limit, global: an upper bound that no kernel
    reaches.

Fix
    Follow the top stall reason; more warps per SM or more independent work per thread hide
    latency.

False positives
    Kernels of a few microseconds: start and end dominate.

References
    Nsight Compute, Kernel Profiling Guide, "Speed Of Light".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import WAVES_PER_SM, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule("ncu-latency", "Latency bound")
# Nsight Compute speaks of occupancy below 80 % (2024.1, rule TheoreticalOccupancy).
_FULL_PCT = 80.0
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def _hit(case: Case) -> Hit | None:
    if case.light is None or not case.waits or (case.get(WAVES_PER_SM) or 1.0) < 1:
        return None
    if case.get(SM_PCT) is None or case.get(MEMORY_PCT) is None:
        return None  # the one that was not measured may be the limit
    sm, memory = format_pct(case.get(SM_PCT)), format_pct(case.get(MEMORY_PCT))
    return Hit(case, case.headroom, None, f"SM {sm}, memory {memory} of peak")


def _advise(hit: Hit) -> str:
    """More warps help only where there is room for them."""
    look = "check its stall reasons (sightline stats stalls); "
    independent = "more independent loads and arithmetic per thread (unroll, several items each)"
    occupancy = hit.case.get(_OCCUPANCY)
    if occupancy is not None and occupancy >= _FULL_PCT:
        return f"{look}{independent}: an SM holds all the warps that it can"
    return f"{look}more warps per SM, or {independent}"


check = judge_kernels(
    RULE,
    _hit,
    metrics=(SM_PCT, MEMORY_PCT),
    more=(_OCCUPANCY,),
    record="--section SpeedOfLight",
    summary="{}: the kernel is latency bound.",
    fix=_advise,
    verify="sightline stats speed_of_light AFTER: a throughput over 60 %",
)
