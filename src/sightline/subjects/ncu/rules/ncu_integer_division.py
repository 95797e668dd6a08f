"""Integer divisions take most of the kernel's instructions.

Symptom
    Conversions from integer to floating point and back, with a reciprocal between them, are a large
    part of what the kernel executes.

Why it hurts
    The GPU has no instruction for integer division and modulo: the compiler writes up to 20, and
    three of them go to the slowest pipe (XU).

Evidence
    Executed conversions and reciprocals by operation (`sightline stats instruction_mix`); the
    source line with most samples.

Threshold
    A fifth of all instructions (ours), 20 for each division (CUDA C++ Programming Guide,
    "Arithmetic Instructions"). Estimate: the SM without these instructions, and the XU pipe without
    three for each. Where the SM binds the kernel, the kernel shrinks to what its next part or the
    next unit needs; else it gives back the time in which it issues them.

Fix
    Divide by constants, which the compiler turns into a multiplication; by powers of two, or shift
    and mask; compute indices once and add to them; or divide in floating point.

False positives
    Conversions and reciprocals that the program itself asks for, in about equal numbers.

References
    CUDA C++ Programming Guide, "Arithmetic Instructions"; CUDA C++ Best Practices Guide, "Division
    Modulo Operations".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import ISSUE, SM, WAITS, XU, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME

RULE = Rule(
    "ncu-integer-division",
    "Integer divisions",
    explains=(*WAITS, "ncu-pipe-limit", "ncu-slow-pipe", "ncu-occupancy-achieved"),
)
INSTRUCTIONS, OF_XU = 20, 3
SHARE_PCT = 20.0


def _hit(case: Case) -> Hit | None:
    whole = case.instructions
    divisions = min(case.count_opcodes(op) for op in ("I2F", "F2I", "MUFU.RCP"))
    if not whole or 100 * INSTRUCTIONS * divisions < SHARE_PCT * whole:
        return None
    share = min(100.0, 100 * INSTRUCTIONS * divisions / whole)
    slow = min(100.0, 100 * OF_XU * divisions / max(case.count_opcodes(*XU), 1.0))
    others = dict.fromkeys((ISSUE, "alu", "fma", "fmaheavy", "fmalite"), share)
    return relieve(
        case,
        {SM: share},
        f"integer divisions are {format_pct(share)} of the instructions",
        parts=others | {"xu": slow},
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(TIME,),
    record="--section InstructionStats",
    fix="divide by constants or powers of two (shift and mask), compute indices once and add to "
    "them, or divide in floating point",
    verify="sightline stats instruction_mix AFTER: fewer I2F and F2I",
)
