"""A few warps work for the whole kernel, while all others ended at once.

Symptom
    An occupancy far under what the launch allows, most SMs idle, and no throughput to speak of.

Why it hurts
    The kernel lasts as long as its longest thread. Where only a few have an element, or one holds a
    loop that nobody shares, a GPU is slower than a core of the host.

Evidence
    Warps that were at work on average, over the whole kernel and all SMs: those that are active
    where an SM is, times the SMs and the part of the time in which they are active. Beside it the
    warps that were launched and fit at once.

Threshold
    A tenth of the warps that fit (ours: unequal items of one loop leave more), in kernels of 20 µs
    or more (ours: the launch and the end of shorter ones leave SMs idle). Estimate: as much as the
    same work takes on all warps that fit, and no more than what is left to the speed of light;
    global: a bound, as not all work can be shared.

Fix
    One thread for each item of the work; what cannot be shared, for many inputs at once.

False positives
    Kernels that are meant to hold the GPU (persistent kernels that wait for work).

References
    Nsight Compute, Kernel Profiling Guide, "Metrics Reference" (sm__warps_active).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_several
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import ACHIEVED, METRICS, WARP, count_warps, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy

RULE = Rule(
    "ncu-lone-warps",
    "A few warps do all the work",
    explains=(
        *WAITS,
        "ncu-small-grid",
        "ncu-imbalance",
        "ncu-tail-effect",
        "ncu-occupancy-achieved",
        "ncu-occupancy-limit",
    ),
)
MOST_SHARE, LEAST_NS = 0.1, 20_000
_ACTIVE_CYCLES = "sm__cycles_active.avg"
_ALL_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "gpc__cycles_elapsed.avg")
_CLOCK = "gpc__cycles_elapsed.avg.per_second"
_OF_WARPS = (*METRICS, ACHIEVED, _ACTIVE_CYCLES, *_ALL_CYCLES, _CLOCK)


def _count_working_warps(case: Case) -> tuple[float, int] | None:
    """Warps at work on average, of those that fit at once; None where that was not measured."""
    known, warps = read_limits_and_launch(case.facts), count_warps(case.facts)
    sms, percent = case.facts.device.get("sm_count"), case.get(ACHIEVED)
    cycles = _count_cycles(case)
    active = case.get(_ACTIVE_CYCLES)
    if known is None or not warps or not sms or percent is None or active is None or not cycles:
        return None
    limits, launch = known
    resident = compute_occupancy(limits, launch).active_blocks * -(-launch.threads // WARP)
    fit = min(warps, int(sms * resident))
    return percent / 100 * limits.max_warps * sms * min(1.0, active / cycles), fit


def _count_cycles(case: Case) -> float:
    cycles, clock = case.get(*_ALL_CYCLES), case.get(_CLOCK)
    return cycles or (clock or 0.0) * (case.facts.ns or 0.0) / 1e9


def _hit(case: Case) -> Hit | None:
    found = _count_working_warps(case)
    if found is None or (case.facts.ns or 0) < LEAST_NS:
        return None
    working, fit = found
    if not 0 < working <= MOST_SHARE * fit:
        return None
    evidence = (
        f"Of {format_several(fit, 'warp')} that fit on the GPU at once {working:.1f} "
        f"{'is' if round(working, 1) == 1 else 'are'} at work on average: the others end at once, "
        "or long before"
    )
    return Hit(case, min(100 * (1 - working / fit), case.headroom), None, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(ACHIEVED, _ACTIVE_CYCLES),
    more=_OF_WARPS,
    record="--section Occupancy --section WorkloadDistribution",
    fix="see which threads run on (an index test that leaves all but a few out, a loop in one "
    "thread): give each thread one item, and a long item a warp or a block; do inherently serial "
    "work on the CPU, or for many inputs in one launch",
    verify="sightline stats occupancy AFTER: achieved_pct nearer to theoretical_pct",
)
