"""The block size is not a multiple of the warp size.

Symptom
    A block has a number of threads that 32 does not divide.

Why it hurts
    The last warp of each block runs with idle lanes. Of a block that is smaller than a warp every
    instruction does: the same threads need several times as many warps, and each of their accesses
    touches sectors for a few of them.

Evidence
    Threads per block and the idle lanes of its warps (`sightline stats launch_shape`).

Threshold
    Threads % 32 ≠ 0 (Nsight Compute 2024.1, rule LaunchConfiguration). Estimate: idle lanes of
    all lanes, local, weighed with the throughput that the kernel reaches. Of blocks under a warp,
    global where the SM or its L1 binds the kernel, or warps wait in more than a wave: full warps
    execute so much less, and the L2 and device memory have what they have today.

Fix
    Use a multiple of 32, and mask the surplus threads; 128 to 256 is a good start.

False positives
    Blocks whose shape the algorithm fixes, as small tiles.

References
    CUDA C++ Best Practices Guide 12.9, "Thread and Block Heuristics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import L1, PARTS, SM, WAITS, WAVES_PER_SM, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME
from sightline.roofline.launch import WARP, count_blocks, count_threads

RULE = Rule(
    "ncu-block-size",
    "Block size not a multiple of the warp size",
    explains=(*WAITS, "ncu-uncoalesced-global", "ncu-divergence", "ncu-l1-limit"),
)
_METRICS = ("launch__block_size", "gpu__time_duration.sum")


def _hit(case: Case) -> Hit | None:
    threads = count_threads(case.facts)
    if not threads or not threads % WARP or count_blocks(case.facts) == 1:
        return None  # one block has no others that its lanes could take in
    lanes = -(-threads // WARP) * WARP
    idle = 100 * (lanes - threads) / lanes
    evidence = f"{format_several(threads, 'thread')} in {format_several(lanes // WARP, 'warp')}"
    if threads > WARP:
        return Hit(case, idle, case.light, evidence)
    hit = relieve(case, {SM: idle, L1: idle}, evidence, parts=dict.fromkeys(PARTS, idle))
    if hit.relieved is not None:
        return hit
    if (case.get(WAVES_PER_SM) or 0.0) <= 1.0:
        return Hit(case, idle, case.light, evidence)
    # Nothing is busy: warps wait, and one of full ones does the work of several as it waits.
    return Hit(case, idle, None, evidence, next_limit=case.find_next_limit({SM: idle, L1: idle}))


def _advise(hit: Hit) -> str:
    if (count_threads(hit.case.facts) or WARP) > WARP:
        return "launch a multiple of 32 threads per block and mask the surplus ones"
    return (
        "launch blocks of 128 to 256 threads, 32 of them along the direction in which addresses "
        "are next to each other (dim3(32, 8)), and enough blocks for every SM; mask the surplus "
        "threads"
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=("launch__block_size", TIME),
    more=(WAVES_PER_SM,),
    record="--section LaunchStats",
    summary=lambda h: f"{h.evidence}: {format_pct(h.local_pct)} of the lanes are idle.",
    fix=_advise,
    verify="sightline stats launch_shape AFTER: idle_lanes_pct is 0",
    is_callers=True,
)
