"""Few instructions fill one slow pipe while the others idle.

Symptom
    The SM's instruction throughput is near its limit although few instructions are issued: they go
    to one pipe, and it takes several cycles for each.

Why it hurts
    Pipes such as FP64 on small devices, special functions or the texture unit take an instruction
    every 4 to 64 cycles: a few of them hold up the whole kernel.

Evidence
    Throughput of the SM's instructions, issue slots in use, and the busiest pipe against the mean
    of all.

Threshold
    Instruction throughput of 80 % or more, issue slots in use below 20 %, and the busiest pipe over
    25 points above the mean (Nsight Compute 2024.1, rule SlowPipeLimiter). Estimate: (busiest −
    mean) / busiest, of the SM's throughput; local.

Fix
    Fewer instructions of that pipe: another precision, another formula, a table.

False positives
    Kernels whose work is that pipe's, such as double-precision codes on a device made for them.

References
    Nsight Compute, Kernel Profiling Guide, "Pipelines".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.placement import SM_PCT

RULE = Rule("ncu-slow-pipe", "Held up by one slow pipeline")
THROUGHPUT_PCT, ISSUED_PCT, ABOVE_POINTS = 80.0, 20.0, 25.0

_ENDINGS = ("avg.pct_of_peak_sustained_active", "avg.pct_of_peak_sustained_elapsed")
_THROUGHPUT = tuple(f"sm__instruction_throughput.{e}" for e in _ENDINGS)
_SLOTS = tuple(f"sm__inst_issued.{e}" for e in _ENDINGS)
_PIPES = {
    pipe: tuple(f"sm__inst_executed_pipe_{pipe}.{e}" for e in _ENDINGS)
    for pipe in (
        "alu",
        "fma",
        "fp64",
        "fp16",
        "tensor",
        "lsu",
        "xu",
        "tex",
        "adu",
        "cbu",
        "uniform",
    )
}


def _hit(case: Case) -> Hit | None:
    throughput, issued = case.get(*_THROUGHPUT), case.get(*_SLOTS)
    pipes = {
        pipe: value
        for pipe in _PIPES
        if (value := case.get(*(f"sm__inst_executed_pipe_{pipe}.{e}" for e in _ENDINGS)))
        is not None
    }
    if throughput is None or issued is None or not pipes:
        return None
    busiest = max(pipes, key=lambda p: pipes[p])
    top, mean = pipes[busiest], sum(pipes.values()) / len(pipes)
    if throughput < THROUGHPUT_PCT or issued >= ISSUED_PCT or top - mean <= ABOVE_POINTS:
        return None
    text = (
        f"the SM's instruction throughput is {throughput:.1f} % with {issued:.1f} % of the issue "
        f"slots in use: the {busiest} pipe is at {top:.1f} %, all at {mean:.1f} % on average"
    )
    return Hit(case, 100 * (top - mean) / top, case.get(SM_PCT), text, busiest)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*_THROUGHPUT, *_SLOTS, *(name for names in _PIPES.values() for name in names)),
    record="--section ComputeWorkloadAnalysis",
    fix="issue fewer instructions to this pipeline: use another precision, another formula or a "
    "lookup table",
    verify="sightline stats instruction_mix AFTER: fewer instructions of this pipeline",
    about_limit=True,
)
