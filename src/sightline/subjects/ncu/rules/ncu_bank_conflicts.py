"""Shared memory accesses collide in its banks.

Symptom
    At least 10 % of the wavefronts of shared memory are only there because of bank conflicts.

Why it hurts
    Threads of a warp that use different words of one bank are served one after the other.

Evidence
    Bank conflicts and wavefronts of shared loads and stores (`sightline stats memory_hierarchy`).

Threshold
    Conflicts ≥ 10 % of wavefronts (Nsight Compute 2024.1, rule SharedMemoryConflicts). Estimate:
    the L1 has so much less to do, of the cycles in which these accesses take its data stage. Where
    the L1 binds the kernel, the kernel shrinks to what the next unit needs, which may then be as
    busy as the L1 is today; else the L1 gives back the time of the conflicts.

Fix
    Pad or swizzle the layout so that the threads of a warp use different banks.

False positives
    Asynchronous copies into shared memory may be counted as conflicts of stores.

References
    CUDA C++ Best Practices Guide 12.9, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import L1, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels

RULE = Rule(
    "ncu-bank-conflicts",
    "Shared memory bank conflicts",
    explains=("ncu-uncoalesced-shared", "ncu-wavefronts", "ncu-l1-limit", *WAITS),
)
SHARE_PCT = 10.0
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
# How much of the kernel's time the L1's data stage moves these wavefronts, %.
_STAGE = f"{_WAVEFRONTS}.pct_of_peak_sustained_elapsed"
_OPS = {"ld": "loads", "st": "stores"}


def _hit(case: Case, op: str) -> Hit | None:
    conflicts, waves = case.get(_CONFLICTS.format(op)), case.get(_WAVEFRONTS.format(op))
    if not conflicts or not waves or 100 * conflicts / waves < SHARE_PCT:
        return None
    used, stage = case.use(L1), case.get(_STAGE.format(op))
    if stage is None or not used:
        # Conflicts of stores matter only as far as stores are part of the traffic.
        part = waves / sum(case.get(_WAVEFRONTS.format(o)) or 0.0 for o in _OPS)
    else:
        part = min(1.0, stage / used)
    return relieve(
        case,
        {L1: 100 * conflicts / waves * part},
        f"{format_pct(100 * conflicts / waves)} of the wavefronts of {_OPS[op]}",
        _OPS[op],
    )


def _find(case: Case) -> Iterator[Hit]:
    return (hit for op in _OPS if (hit := _hit(case, op)) is not None)


check = judge_kernels(
    RULE,
    _find,
    metrics=[t.format(op) for t in (_CONFLICTS, _WAVEFRONTS) for op in _OPS],
    more=[_STAGE.format(op) for op in _OPS],
    record="--section MemoryWorkloadAnalysis_Tables",
    summary="{} are due to bank conflicts.",
    fix="pad or swizzle the shared memory layout",
    verify="sightline stats memory_hierarchy AFTER: bank conflicts under 10 %",
)
