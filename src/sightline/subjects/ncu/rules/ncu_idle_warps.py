"""A grid far larger than the data: most warps read nothing and write nothing.

Symptom
    A kernel that computes indices at full speed while hardly anything is loaded or stored.

Why it hurts
    A thread whose index lies beyond the data works that out, and ends. Where two dimensions each
    cover what one would (i and j up to n for n elements), nearly all threads do only that.

Evidence
    Warps that were launched, and what all of them asked memory for, of any kind: no more warps
    than requests can have done anything that another thread or the host could see.

Threshold
    At most a fifth as many requests as warps (ours: a bound that leaves out half of the last block
    leaves more), and up to 1,000 instructions a warp (ours: a test of arithmetic, which may store
    nothing, runs more). Estimate: the warps without a request, global.

Fix
    A grid of the size of the data: (n + threads - 1) / threads blocks in one dimension.

False positives
    Kernels that measure arithmetic, or scheduling.

References
    CUDA C++ Programming Guide, "Thread Hierarchy"; Nsight Compute, Kernel Profiling Guide, "Memory
    Tables".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_count, format_pct, format_several
from sightline.diagnosis.kernel_bounds import EXECUTED, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import count_blocks, count_threads, count_warps

RULE = Rule(
    "ncu-idle-warps",
    "Warps that find nothing to do",
    explains=(
        *WAITS,
        "ncu-integer-division",
        "ncu-fp64",
        "ncu-conversions",
        "ncu-math-functions",
        "ncu-no-fma",
        "ncu-pipe-limit",
        "ncu-busiest-unit",
        "ncu-slow-pipe",
        "ncu-short-blocks",
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
        "ncu-tail-effect",
        "ncu-imbalance",
    ),
)
MOST_SHARE, MOST_INSTRUCTIONS = 0.2, 1_000.0
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_{}.sum"
_GLOBAL = tuple(_REQUESTS.format(f"global_op_{op}") for op in ("ld", "st"))
_OTHER = (
    *(_REQUESTS.format(op) for op in ("global_op_atom", "global_op_red")),
    *(_REQUESTS.format(op) for op in ("local_op_ld", "local_op_st")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")),
    "l1tex__t_requests_pipe_tex_mem_texture.sum",
    *(f"l1tex__t_requests_pipe_tex_mem_surface_op_{op}.sum" for op in ("ld", "st")),
    "smsp__inst_executed_op_ldgsts.sum",
)


def _hit(case: Case) -> Hit | None:
    facts = case.facts
    blocks, threads, warps = count_blocks(facts), count_threads(facts), count_warps(facts)
    executed, asked = case.get(*EXECUTED), [case.get(name) for name in _GLOBAL]
    if not blocks or not threads or not warps or not executed or None in asked:
        return None
    requests = sum(case.get(name) or 0 for name in (*_GLOBAL, *_OTHER))
    if not 0 < requests <= MOST_SHARE * warps or executed > MOST_INSTRUCTIONS * warps:
        return None
    evidence = (
        f"Of {format_several(warps, 'warp')} ({format_several(blocks, 'block')} of "
        f"{format_several(threads, 'thread')}) at most {format_count(round(requests))} read or "
        f"write anything: {format_pct(100 * requests / warps)}"
    )
    return Hit(case, 100 * (1 - requests / warps), None, evidence, relieves_limit=True)


check = judge_kernels(
    RULE,
    _hit,
    metrics=_GLOBAL,
    more=(*EXECUTED, *_OTHER),
    record="--section MemoryWorkloadAnalysis_Tables --section InstructionStats",
    fix="launch as many threads as there are elements, in one dimension: "
    "kernel<<<(n + 255) / 256, 256>>>; two dimensions that each cover the data launch its square",
    verify="sightline stats launch_shape AFTER: fewer blocks",
    is_callers=True,
)
