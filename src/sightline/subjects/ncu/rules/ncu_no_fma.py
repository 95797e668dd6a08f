"""Multiplications and additions are not fused.

Symptom
    Many floating point instructions are single additions and multiplications.

Why it hurts
    A fused multiply-add does two operations for the price of one instruction.

Evidence
    Counts of FADD, FMUL and FFMA (DADD, DMUL, DFMA).

Threshold
    Half of the non-fused instructions of all of the type > 10 % (Nsight Compute 2024.1, rule
    FPInstructions). Estimate: half of their share, local, weighed with the utilization of the
    pipe. Ours besides: the kernel gets no shorter than what memory needs.

Fix
    Write a * b + c in one expression, and compile with --fmad=true (the default) or call fma().

False positives
    Algorithms that only add or only multiply.

References
    CUDA C++ Programming Guide 12.9, "Floating-Point Standard"; --fmad of nvcc.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import SM, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.flops import METRICS as FLOP_METRICS
from sightline.roofline.peaks import compare_to_peak

RULE = Rule("ncu-no-fma", "Multiply and add not fused")
SHARE = 0.1
_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_PIPES = {
    "f": (
        "fp32",
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "d": (
        "fp64",
        "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
}
_COUNTS = [_OP.format(t + o) for t in _PIPES for o in ("add", "mul", "fma")]


def _hit(case: Case, kind: str) -> Hit | None:
    word, *pipes = _PIPES[kind]
    add, mul, fma = (
        case.get(n, f"{n}.per_cycle_elapsed") or 0.0
        for n in (_OP.format(kind + o) for o in ("add", "mul", "fma"))
    )
    total = add + mul + fma
    # Additions alone cannot be fused: at most as many pairs as the rarer of the two has.
    if not total or not min(add, mul) or (add + mul) / total / 2 <= SHARE:
        return None
    evidence = f"{format_pct(100 * (add + mul) / total)} of the {word} instructions are not fused"
    limit = case.find_next_limit({SM: 100.0})
    weight = case.get(*pipes)
    if weight is None:  # a product or a sum takes the slot of both
        share = compare_to_peak(case.facts, word)
        weight = None if share is None else 100 * share * 2 * total / (total + fma)
    return Hit(case, 50 * (add + mul) / total, weight, evidence, word, limit)


def _find(case: Case) -> Iterator[Hit]:
    return (hit for kind in _PIPES if (hit := _hit(case, kind)) is not None)


check = judge_kernels(
    RULE,
    _find,
    metrics=(*_COUNTS, *(f"{name}.per_cycle_elapsed" for name in _COUNTS)),
    more=[*(name for _, *names in _PIPES.values() for name in names), *FLOP_METRICS],
    record="--section InstructionStats",
    fix="write a * b + c as one expression, keep --fmad=true, or call fma()",
    verify="sightline stats instruction_mix AFTER: more FFMA or DFMA, fewer additions",
)
