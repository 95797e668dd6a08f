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
from sightline.diagnosis.stall_advice import RECORD_STALLS, WARP_LATENCY
from sightline.roofline.launch import ACHIEVED, METRICS, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule("ncu-latency", "Latency bound")
# Nsight Compute speaks of occupancy below 80 % (2024.1, rule TheoreticalOccupancy).
_FULL_PCT = 80.0
# As ncu-occupancy-achieved: warps that fit and are not there have ended, or not begun.
_UNEVEN_POINTS = 10.0
_UNEVEN = "even out the work of threads and blocks (a warp or a block for each long item)"


def _hit(case: Case) -> Hit | None:
    if case.light is None or not case.waits or (case.get(WAVES_PER_SM) or 1.0) < 1:
        return None
    if case.get(SM_PCT) is None or case.get(MEMORY_PCT) is None:
        return None  # the one that was not measured may be the limit
    sm, memory = format_pct(case.get(SM_PCT)), format_pct(case.get(MEMORY_PCT))
    return Hit(case, case.headroom, None, f"SM {sm}, memory {memory} of peak")


def _advise(hit: Hit) -> str:
    """More warps help only where there is room for them, and even work where they end apart."""
    has_stalls = hit.case.get(WARP_LATENCY) is not None
    look = "check its stall reasons (sightline stats stalls)" if has_stalls else RECORD_STALLS
    look += "; "
    independent = "more independent loads and arithmetic per thread (unroll, several items each)"
    active = hit.case.get(ACHIEVED)
    if active is not None and active >= _FULL_PCT:
        return f"{look}{independent}: an SM holds all the warps that it can"
    known = read_limits_and_launch(hit.case.facts)
    fits = 0.0 if known is None else compute_occupancy(*known).pct
    if active is not None and fits >= active + _UNEVEN_POINTS:
        return (
            f"{look}{_UNEVEN}, or {independent}; the launch's shape allows more warps than are "
            f"active ({format_pct(fits)}, {format_pct(active)})"
        )
    return f"{look}more warps per SM, or {independent}"


check = judge_kernels(
    RULE,
    _hit,
    metrics=(SM_PCT, MEMORY_PCT),
    more=(ACHIEVED, WARP_LATENCY, *METRICS),
    record="--section SpeedOfLight",
    summary="{}: the kernel is latency bound.",
    fix=_advise,
    verify="sightline stats speed_of_light AFTER: a throughput over 60 %",
)
