"""Conversions there and back between integers and floating point keep the XU pipe busy.

Symptom
    Conversions from integer to floating point and back in about equal numbers, and no reciprocal
    between them, as a division would have.

Why it hurts
    A multiprocessor converts 16 values a cycle, and adds or multiplies 64 or 128: a sum in an
    integer whose products are floats costs two conversions for each of its terms.

Evidence
    Executed conversions by operation (`sightline stats instruction_mix`), less those that integer
    divisions take; the pipe that they go to (XU).

Threshold
    A tenth of all instructions, which at a fourth or an eighth of the others' rate take as long as
    the rest (CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions").
    Estimate: the SM and the XU pipe without the conversions that go there and back. One for each
    value that is read or written stays.

Fix
    Sum in the type of the products and convert once at the end; keep constants in the type of the
    data; load several small integers at once.

False positives
    Codes whose work it is to convert, such as quantization.

References
    CUDA C++ Programming Guide, "Arithmetic Instructions"; Kernel Profiling Guide, "Pipelines".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import ISSUE, SM, WAITS, XU, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME

RULE = Rule(
    "ncu-conversions",
    "Conversions between integers and floating point",
    explains=(*WAITS, "ncu-pipe-limit", "ncu-slow-pipe"),
)
SHARE_PCT = 10.0


def _hit(case: Case) -> Hit | None:
    whole = case.instructions
    there, back, divisions = (case.count_opcodes(op) for op in ("I2F", "F2I", "MUFU.RCP"))
    both = 2 * (min(there, back) - divisions)
    if not whole or 100 * both < SHARE_PCT * whole:
        return None
    share = 100 * both / whole
    of_xu = min(100.0, 100 * both / max(case.count_opcodes(*XU), 1.0))
    return relieve(
        case,
        {SM: share},
        f"conversions there and back are {format_pct(share)} of the instructions, and "
        f"{format_pct(of_xu)} of those of the XU pipe",
        parts={ISSUE: share, "xu": of_xu},
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(TIME,),
    record="--section InstructionStats",
    fix="sum in the type of the products (float) and convert once at the end; keep constants in "
    "the type of the data; load several small integers at once (uchar4)",
    verify="sightline stats instruction_mix AFTER: fewer I2F and F2I",
)
