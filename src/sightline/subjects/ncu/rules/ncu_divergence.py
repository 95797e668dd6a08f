"""Warps run with few of their 32 threads.

Symptom
    On average fewer than 24 threads of a warp take part in an instruction.

Why it hurts
    An instruction costs the same with one thread as with 32.

Evidence
    Threads per executed instruction, with and without predication (`sightline stats
    instruction_mix` has it by opcode).

Threshold
    Under 24 threads per instruction, before or after predication (Nsight Compute 2024.1, rule
    ThreadDivergence). Estimate: 1 − threads / 32. Before predication, of the kernel where the SM
    has more to do than memory: a warp then does one path after the other, whether the SM is busy or
    waits. Else, and after predication (instructions that are
    issued and done by few), local, weighed with the SM throughput.

Fix
    Sort or group work so that the threads of a warp take the same path; make loops of equal
    length.

False positives
    Blocks smaller than a warp (see ncu-block-size).

References
    Nsight Compute, Kernel Profiling Guide, "Warp State Statistics"; CUDA C++ Best Practices
    Guide, "Branch Predication".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule("ncu-divergence", "Thread divergence")
THREADS, WARP = 24.0, 32
_EXECUTED = "smsp__thread_inst_executed_per_inst_executed.ratio"
_PREDICATED = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"


def _hit(case: Case) -> Hit | None:
    executed, predicated = case.get(_EXECUTED), case.get(_PREDICATED)
    known = [threads for threads in (executed, predicated) if threads is not None]
    if not known or min(known) >= THREADS:
        return None
    evidence = " threads active, ".join(f"{v:.1f}" for v in known)
    if len(known) == 2:
        evidence += " after predication"
    weight, memory = case.get(SM_PCT), case.get(MEMORY_PCT)
    is_serial = executed is not None and executed < THREADS
    # No next limit: what diverging paths load apart, one path loads at once.
    if not is_serial or executed is None or weight is None or (memory or 0.0) > weight:
        idle = 100 * (1 - min(known) / WARP)
        return Hit(case, idle, 100.0 if weight is None else weight, evidence)
    return Hit(case, 100 * (1 - executed / WARP), None, evidence, relieves_limit=True)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_EXECUTED, _PREDICATED),
    record="--section WarpStateStats",
    summary="Of 32 threads of a warp: {}.",
    fix="let the threads of a warp take the same path: group equal work, even out loop lengths",
    verify="sightline stats instruction_mix AFTER: threads_per_inst near 32",
)
