"""The schedulers issue too rarely.

Symptom
    Each scheduler could issue an instruction per cycle and issues in less than 60 % of them.

Why it hurts
    Cycles without an issue are lost for the SM.

Evidence
    Issued instructions per scheduler and cycle, and eligible warps.

Threshold
    Issue active < 0.6 per cycle (Nsight Compute 2024.1, rule IssueSlotUtilization). Estimate: 1 −
    issue active, not more than what is left to the speed of light; global.

Fix
    More eligible warps: higher occupancy where active warps are few, otherwise fewer stalls (ncu-
    stall).

False positives
    Kernels that memory or the tensor pipe keeps busy: there few instructions do much.

References
    Nsight Compute, Kernel Profiling Guide, "Scheduler Statistics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import WAVES_PER_SM, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.diagnosis.stall_advice import RECORD_STALLS, WARP_LATENCY

RULE = Rule("ncu-issue-slots", "Low issue slot utilization", explains=("ncu-latency",))
ISSUE = 0.6
# A scheduler with fewer warps than an arithmetic instruction has cycles (4, CUDA C++ Programming
# Guide, "Multiprocessor Level") cannot issue in each of them without independent instructions.
_FEW = 4.0
_ISSUE = "smsp__issue_active.avg.per_cycle_active"
_ACTIVE = "smsp__warps_active.avg.per_cycle_active"
_ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"


def _evidence(case: Case) -> str:
    issue, active, eligible = case.get(_ISSUE), case.get(_ACTIVE), case.get(_ELIGIBLE)
    text = f"each scheduler issues every {1 / issue:.1f} cycles" if issue else "no issues"
    if active is not None and eligible is not None:
        text += f"; of {active:.2f} active warps {eligible:.2f} are eligible"
    return text


def _hit(case: Case) -> Hit | None:
    issue = case.get(_ISSUE)
    if issue is None or issue >= ISSUE:
        return None
    gain = min(100 * (1 - issue), case.headroom)
    return Hit(case, gain, None, _evidence(case), is_symptom=True)


def _advise(hit: Hit) -> str:
    """More warps where few are active, by what keeps them away; else fewer stalls."""
    active, waves = hit.case.get(_ACTIVE), hit.case.get(WAVES_PER_SM)
    if active is None or active >= _FEW:
        known = hit.case.get(WARP_LATENCY) is not None
        return "remove the top stall reason (sightline stats stalls)" if known else RECORD_STALLS
    if waves is not None and waves < 1:
        return (
            f"the grid is too small to give an SM more warps ({waves:.2f} waves): launch more, "
            "smaller blocks (for products smaller tiles or split-K), or several inputs at once"
        )
    return (
        "raise the occupancy (fewer registers or less shared memory a block, another block size), "
        "or give each thread more independent work"
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_ISSUE, _ACTIVE, _ELIGIBLE),
    more=(WARP_LATENCY,),
    record="--section SchedulerStats",
    fix=_advise,
    verify="sightline stats stalls AFTER: fewer cycles per issued instruction",
)
