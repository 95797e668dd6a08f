"""Far fewer warps are resident than the launch allows.

Symptom
    Achieved occupancy is more than 10 points under the theoretical one.

Why it hurts
    Warps or blocks of unequal length, or a grid that ends early, leave SMs half empty.

Evidence
    Both occupancies (`sightline stats occupancy`).

Threshold
    Theoretical − achieved > 10 points (Nsight Compute 2024.1, rule AchievedOccupancy). Estimate:
    (theoretical − achieved) / theoretical, not more than the unused issue slots and what is left to
    the speed of light; global.

Fix
    Balance the work between blocks and warps; use smaller blocks; make the kernel longer than its
    start and end.

False positives
    Very short kernels. Grids of less than one wave are ncu-small-grid.

References
    Nsight Compute, Kernel Profiling Guide, "Occupancy".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import ACHIEVED, METRICS, count_blocks, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy

RULE = Rule(
    "ncu-occupancy-achieved",
    "Achieved occupancy below theoretical",
    explains=("ncu-issue-slots",),
)
POINTS = 10.0
_ISSUE = "smsp__issue_active.avg.per_cycle_active"


def _hit(case: Case) -> Hit | None:
    known, achieved = read_limits_and_launch(case.facts), case.get(ACHIEVED)
    if known is None or achieved is None:
        return None
    fit = compute_occupancy(*known)
    blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
    if blocks and sms and blocks < sms * fit.active_blocks:
        return None  # the grid is too small to fill the SMs: that is ncu-small-grid
    if fit.pct - achieved <= POINTS:
        return None
    evidence = f"{format_pct(achieved)} of {format_pct(fit.pct)} occupancy is reached"
    unused = 100 * (1 - (case.get(_ISSUE) or 0.0))
    estimate = min(100 * (fit.pct - achieved) / fit.pct, case.headroom, unused)
    return Hit(case, estimate, None, evidence, is_symptom=True)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(ACHIEVED,),
    more=(*METRICS, _ISSUE),
    record="--section Occupancy",
    fix="balance the work between blocks and between warps; smaller blocks; longer kernels",
    verify="sightline stats occupancy AFTER: achieved_pct nearer to theoretical_pct",
)
