"""One execution pipe is busy nearly all the time.

Symptom
    A pipe (FMA, ALU, FP64, tensor, load/store, special functions, ...) is in use for 80 % of the
    cycles or more.

Why it hurts
    The kernel cannot run faster than this pipe. Where the pipe is the one that does the kernel's
    own work, this is good: the kernel is at its limit, and only less work or another pipe helps.

Evidence
    Busy cycles of each pipe, where the profiler counts them, else its issued instructions, as % of
    the peak.

Threshold
    80 % (Nsight Compute 2024.1, rule HighPipeUtilization: from there on the pipe is called a
    bottleneck; 60 to 80 % is high use and no finding here).

Fix
    Move work to another pipe: tensor cores for matrix products, float for double, integer address
    arithmetic out of the loop, wider loads instead of more of them, fast-math intrinsics for the
    special-function pipe.

False positives
    None to speak of, but no gain is claimed: how much another pipe could take over is not in the
    counters.

References
    Nsight Compute, Kernel Profiling Guide, "Compute Workload Analysis" and "Pipelines".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.pipe_advice import relieve_pipe
from sightline.diagnosis.profiled import judge_kernels

RULE = Rule("ncu-pipe-limit", "Bound by one pipeline")

_CYCLES = ("alu", "fma", "fmaheavy", "fmalite", "fp64", "fp16", "tensor", "shared")
_ISSUED = ("lsu", "xu", "tex", "adu", "cbu", "uniform", "ipa")
_ENDINGS = ("avg.pct_of_peak_sustained_active", "avg.pct_of_peak_sustained_elapsed")
_NAMES = {
    pipe: tuple(f"sm__pipe_{pipe}_cycles_active.{e}" for e in _ENDINGS) for pipe in _CYCLES
} | {pipe: tuple(f"sm__inst_executed_pipe_{pipe}.{e}" for e in _ENDINGS) for pipe in _ISSUED}


def _hit(case: Case) -> Hit | None:
    busy = {p: v for p, names in _NAMES.items() if (v := case.get(*names)) is not None}
    if not busy:
        return None
    pipe = max(busy, key=lambda p: busy[p])
    if busy[pipe] < LIMIT_PCT:
        return None
    # No estimate: the counters do not say how much of the work another pipe could do.
    return Hit(
        case, 0.0, 0.0, f"the {pipe} pipeline is used at {busy[pipe]:.1f} % of its peak", pipe
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=[name for names in _NAMES.values() for name in names],
    record="--section ComputeWorkloadAnalysis",
    fix=lambda h: relieve_pipe(h.subject),
    verify="sightline stats instruction_mix AFTER: fewer instructions of this pipeline",
    about_limit=True,
)
