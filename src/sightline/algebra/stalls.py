"""Why a warp did not issue: the vendor's reasons, sorted into a few classes.

Reasons and their meaning: Nsight Compute, Kernel Profiling Guide, "Warp Scheduler States" and
"Metrics Decoder: Warp Stall Reasons". Two spellings of the same reason exist there: the counters
say no_instruction, the samples no_instructions.
"""

from __future__ import annotations

CLASSES = {
    "long_scoreboard": "memory",
    "lg_throttle": "memory",
    "drain": "memory",
    "imc_miss": "memory",
    "mio_throttle": "memory",
    "short_scoreboard": "memory",
    "tex_throttle": "memory",
    "math_pipe_throttle": "compute",
    "wait": "compute",
    "dispatch_stall": "compute",
    "gmma": "compute",
    "barrier": "sync",
    "membar": "sync",
    "sleeping": "sync",
    "warpgroup_arrive": "sync",
    "branch_resolving": "control",
    "no_instruction": "control",
    "not_selected": "eligible",
    "selected": "issued",
}


def canonical(reason: str) -> str:
    """One spelling for each reason."""
    return "no_instruction" if reason == "no_instructions" else reason


def stall_class(reason: str) -> str:
    """memory, compute, sync, control, eligible, issued or other."""
    return CLASSES.get(canonical(reason), "other")
