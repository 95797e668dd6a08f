"""Warps wait at barriers, again and again.

Symptom
    Warps spend much of their time at __syncthreads, or, between one barrier and the next, on
    handing data over through shared memory, in which few threads take part.

Why it hurts
    At a barrier all warps of a block wait for the last one. A tree reduction with a barrier for
    each level has half as much work on each as on the one before, and all warps come to each.

Evidence
    Cycles at barriers and for shared memory between two issues of a warp (`sightline stats
    stalls`), and how many barriers each warp meets (`sightline stats instruction_mix`).

Threshold
    30 % of the cycles between two issues (Nsight Compute 2024.1, rule CPIStall), barriers alone
    10 % (ours). Waits for shared memory are added where each warp meets several barriers and fewer
    than half of its threads take part in shared accesses: there the barriers are what the
    accesses are for. Estimate, global: that share; of barriers alone not more than what is left to
    the speed of light.

Fix
    Within a warp, exchange by shuffles (__shfl_down_sync, __reduce_add_sync, cub::WarpReduce):
    they need no barrier. For a block, cub::BlockReduce has one. Else balance the work before the
    barrier, or use smaller blocks.

False positives
    Tiles that are loaded together: there more work between two barriers helps.

References
    Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons"; Harris, "Optimizing Parallel
    Reduction in CUDA"; CUDA C++ Programming Guide, "Warp Shuffle Functions".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import L1, SM, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.diagnosis.stall_advice import STALLED, WARP_LATENCY
from sightline.roofline.launch import WARP, count_warps

RULE = Rule(
    "ncu-barriers",
    "Waiting at barriers",
    explains=(*WAITS, "ncu-divergence", "ncu-occupancy-achieved"),
)
SHARE_PCT, ALONE_PCT = 30.0, 10.0
SEVERAL = 3  # barriers a warp meets: a reduction of a block by shuffles needs one or two
_EXCHANGE = ("short_scoreboard", "mio_throttle")
_SHARED = ("LDS", "STS")


_FIX = {
    True: "exchange within a warp by shuffles (__shfl_down_sync, cub::WarpReduce), which need no "
    "barrier, and once between warps (cub::BlockReduce); several elements a thread (loaded as int4 "
    "or float4) make fewer blocks and barriers for the same bytes",
    False: "balance the work before the barrier, do more between two, or use smaller blocks",
}


def _hit(case: Case) -> Hit | None:
    latency = case.get(WARP_LATENCY)
    if not latency:
        return None
    shares = {
        reason: 100 * (case.get(STALLED.format(reason)) or 0.0) / latency
        for reason in ("barrier", *_EXCHANGE)
    }
    alone, exchange = shares["barrier"], sum(shares[reason] for reason in _EXCHANGE)
    met = _count_barriers(case)
    is_exchange = met is not None and met >= SEVERAL and _is_sparse(case)
    share = alone + exchange if is_exchange else alone
    if alone < ALONE_PCT or share < SHARE_PCT:
        return None
    evidence = f"{format_pct(alone)} of the time between two issues, warps wait at barriers"
    if met is not None:
        evidence += f", of which each meets {met:.0f}"
    if not is_exchange:
        return Hit(case, min(share, case.headroom), None, evidence)
    return Hit(
        case,
        share,
        None,
        f"{evidence}, and {format_pct(exchange)} for the shared memory between them, in which few "
        "threads of a warp take part",
        # Shuffles take the place of these accesses, of their addresses and of the barriers.
        next_limit=case.find_next_limit({SM: 100.0, L1: 100.0}),
        relieves_limit=True,
    )


def _count_barriers(case: Case) -> float | None:
    """How many barriers a warp meets."""
    warps = count_warps(case.facts)
    if not case.facts.opcodes or not warps:
        return None
    return case.count_opcodes("BAR") / warps


def _is_sparse(case: Case) -> bool:
    """Whether fewer than half of the threads take part in accesses to shared memory."""
    warps = sum(n for op, n in case.facts.opcodes.items() if op.split(".")[0] in _SHARED)
    threads = sum(n for op, n in case.facts.thread_opcodes.items() if op.split(".")[0] in _SHARED)
    return bool(warps) and 0 < threads < WARP / 2 * warps


check = judge_kernels(
    RULE,
    _hit,
    metrics=(WARP_LATENCY,),
    more=[STALLED.format(reason) for reason in ("barrier", *_EXCHANGE)],
    opcodes=("BAR",),
    record="--section WarpStateStats",
    fix=lambda h: _FIX[h.next_limit is not None],
    verify="sightline stats stalls AFTER: less of barrier",
)
