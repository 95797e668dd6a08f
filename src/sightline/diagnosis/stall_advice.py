"""What a warp waits for, by the vendor's stall reason, and what helps.

Source: NVIDIA, Nsight Compute documentation, Kernel Profiling Guide, "Warp Stall Reasons".
"""

from __future__ import annotations

# Recorded with the reasons: without it there is nothing to look at.
WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
# Of these cycles those that a warp waits for one reason.
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
RECORD_STALLS = (
    "record why warps wait, and at which line (ncu --section WarpStateStats --section "
    "SourceCounters)"
)

_ADVICE = {
    "long_scoreboard": (
        "for data of L1, L2 or device memory (global, local, texture)",
        "coalesce the loads, reuse data in shared memory or registers, load earlier (prefetch, "
        "cp.async), or hold more loads in flight per thread",
    ),
    "short_scoreboard": (
        "for shared memory or special functions (the MIO)",
        "remove bank conflicts, use wider shared accesses, keep values in registers, and replace "
        "divisions and transcendental functions in the loop",
    ),
    "lg_throttle": (
        "for a free slot in the queue of global and local memory instructions",
        "use fewer, wider accesses (float4), and look for spilled registers",
    ),
    "mio_throttle": (
        "for a free slot in the queue of shared memory and special instructions",
        "use fewer, wider shared accesses, and spread special functions",
    ),
    "tex_throttle": (
        "for a free slot in the texture queue",
        "fetch less, or load through the L1 instead",
    ),
    "math_pipe_throttle": (
        "for a busy arithmetic pipeline",
        "expected of a busy pipeline: move work to another pipeline or to the tensor cores",
    ),
    "wait": (
        "for the fixed latency of their own instructions",
        "use more independent instructions per thread (unroll) or more warps per SM",
    ),
    "barrier": (
        "at a barrier for other warps of their block",
        "balance the work before the barrier, use smaller blocks, or split barriers "
        "(arrive and wait)",
    ),
    "membar": ("at a memory fence", "use fences of smaller scope, or fewer of them"),
    "sleeping": ("asleep", "poll less often, or not at all"),
    "branch_resolving": (
        "for branch targets",
        "use fewer jumps: unroll, or predicate short branches",
    ),
    "no_instruction": (
        "for instructions that are not in the cache",
        "make the hot loop smaller, avoid long unrolled code and jumps over it",
    ),
    "dispatch_stall": ("for the dispatcher", "look for register bank conflicts"),
    "imc_miss": (
        "for constants that are not in the cache",
        "read constants with one address per warp, or pass less data as constants",
    ),
    "drain": (
        "after their last instruction for stores to complete",
        "store less at the end of the kernel, and coalesce the stores",
    ),
    "not_selected": ("while other warps issue", "while other warps issue"),
    "gmma": ("for the warp group's tensor cores", "expected of busy tensor cores"),
}


def advise_on_stall(reason: str) -> tuple[str, str]:
    """'for shared memory …', as in "warps wait for …", and what helps; else the reason's name."""
    return _ADVICE.get(reason, (f"for {reason}", "see the Kernel Profiling Guide on this reason"))


# The classes of core/model/stall_classes.py: one reason of each says what helps, and what a vendor
# calls the memory of a block and its threads is left out.
_CLASSES = {
    "memory wait": (
        "for data of the caches or the device's memory",
        "let neighboring threads read neighboring addresses, reuse data in shared (local) memory "
        "or registers, load earlier, or hold more loads in flight per thread",
    ),
    "on-chip memory wait": _ADVICE["short_scoreboard"],
    "memory queue full": _ADVICE["lg_throttle"],
    "ALU dependency": (
        "for the results of its own earlier instructions",
        "use more independent instructions per thread (unroll, several results a thread), or more "
        "waves at once",
    ),
    "pipe busy": _ADVICE["math_pipe_throttle"],
    "sync": (
        "at barriers and fences",
        "balance the work before the barrier, use smaller blocks, or fewer barriers",
    ),
    "instruction supply": _ADVICE["no_instruction"],
    "not chosen": (
        "while other waves issue",
        "nothing to fix in it: enough waves are ready",
    ),
    "control": _ADVICE["branch_resolving"],
}


def advise_on_class(stall_class: str) -> tuple[str, str]:
    """The same of a class of reasons, in words of no vendor."""
    unknown = (
        "for a reason that the profiler does not name",
        "look the reason up in the profiler's guide",
    )
    return _CLASSES.get(stall_class, unknown)
