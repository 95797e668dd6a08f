"""The L1 takes many turns for each request: bank conflicts or scattered addresses.

Symptom
    The L1's data stage is busy, and each request of a warp takes more wavefronts of it than the
    widest access needs.

Why it hurts
    The data stage does one wavefront a cycle. A warp whose threads use the same banks, or many
    lines, is served in as many turns.

Evidence
    Wavefronts of the L1's data stage and requests to it, % of the peak of each.

Threshold
    Data stage at 60 % of its peak or more (Speed of Light: well utilized) and the L1 the busiest
    unit; over 4 wavefronts a request, which 16 bytes a thread need, the widest access. Where the
    conflicts themselves were counted, ncu-bank-conflicts and ncu-uncoalesced-shared say which.
    Estimate: the L1 with 4 wavefronts a request; the kernel shrinks to what the next unit needs,
    which may then be as busy as the L1 is today.

Fix
    Pad or swizzle the layout of shared memory so that the threads of a warp use different banks;
    let neighboring threads access neighboring addresses.

False positives
    Atomic operations on shared memory, which take a turn for each address (ncu-atomics).

References
    Nsight Compute, Kernel Profiling Guide, "Memory Chart" and "Memory Tables" (wavefronts).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import L1, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule(
    "ncu-wavefronts",
    "Many L1 wavefronts for each request",
    explains=(
        *WAITS,
        "ncu-busiest-unit",
        "ncu-imbalance",
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
    ),
)
WIDEST = 4.0
_PCT = "avg.pct_of_peak_sustained_elapsed"
_STAGE = f"l1tex__data_pipe_lsu_wavefronts.{_PCT}"
_REQUESTS = f"l1tex__lsuin_requests.{_PCT}"


def _hit(case: Case) -> Hit | None:
    stage, requests, now = case.get(_STAGE), case.get(_REQUESTS), case.busiest
    if stage is None or not requests or stage < LATENCY_PCT or stage <= WIDEST * requests:
        return None
    if now is None or now.unit != L1:
        return None
    return relieve(
        case,
        {L1: 100 * (1 - WIDEST * requests / stage)},
        f"the L1's data stage is busy for {format_pct(stage)} of the time, with "
        f"{stage / requests:.0f} wavefronts for each request",
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_STAGE, _REQUESTS),
    record="--section SpeedOfLight",
    fix="pad or swizzle the layout of shared memory, and let neighboring threads access "
    "neighboring addresses; ncu --set full names the instruction",
    verify="sightline stats memory_hierarchy AFTER: fewer wavefronts per request",
)
