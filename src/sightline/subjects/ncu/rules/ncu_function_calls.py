"""Calls of functions that are not inlined take much of the kernel's instructions.

Symptom
    Each few instructions a warp calls a function and returns from it.

Why it hurts
    A call puts its arguments and the address to return to into fixed registers, jumps twice, and
    keeps the compiler from overlapping the function's work with its caller's.

Evidence
    Executed calls and returns (`sightline stats instruction_mix`); the source line that calls most.

Threshold
    A fifth of all instructions (ours), six for each call: the call, the return, the two halves of
    the address to return to, an argument and the result. Estimate: these instructions, of the whole
    kernel where the SM has more to do than memory, as a warp does one after the other whether the
    SM is busy or waits; else weighed with the SM throughput. Not more than what memory leaves.

Fix
    Let the compiler inline the function: __forceinline__, its definition in the same file or -dlto,
    no calls by pointer or virtual functions in the inner loop (templates or a switch instead).

False positives
    Functions of the compiler itself: division and square root in double precision call their rare
    cases.

References
    CUDA C++ Programming Guide, "__noinline__ and __forceinline__" and "Virtual Functions"; nvcc,
    "Device Link Time Optimization".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import SM, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule("ncu-function-calls", "Calls of functions", explains=WAITS)
INSTRUCTIONS = 6
SHARE_PCT = 20.0


def _hit(case: Case) -> Hit | None:
    calls, whole = min(case.count_opcodes("CALL"), case.count_opcodes("RET")), case.instructions
    if not whole or 100 * INSTRUCTIONS * calls < SHARE_PCT * whole:
        return None
    share = min(100.0, 100 * INSTRUCTIONS * calls / whole)
    weight = case.get(SM_PCT)
    is_serial = weight is None or weight >= (case.get(MEMORY_PCT) or 0.0)
    return Hit(
        case,
        share,
        None if is_serial else weight,
        f"calls and returns are {format_pct(share)} of the instructions: one call for each "
        f"{whole / calls:.0f}",
        next_limit=case.find_next_limit({SM: share}),
        relieves_limit=is_serial,
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(TIME,),
    opcodes=("CALL",),
    record="--section InstructionStats",
    fix="let the compiler inline it: __forceinline__, the definition in the same file or -dlto, no "
    "calls by pointer or virtual functions in the inner loop",
    verify="sightline stats instruction_mix AFTER: no CALL",
)
