"""The kernel keeps data of its threads in scratch memory.

Symptom
    A work-item has scratch memory: registers that were spilled, or arrays that are indexed by a
    value.

Why it hurts
    Scratch lies in device memory. It passes all caches and takes their room, and its latency
    stands where a register's was meant.

Evidence
    Bytes of scratch per work-item, registers in use.

Threshold
    Any (0 is what the compiler aims at). No gain is claimed: how often scratch is used is not in
    these counters.

Fix
    Lower the registers' pressure: __launch_bounds__ of the block size that is really used, smaller
    tiles, less unrolling; index small arrays by constants only.

False positives
    Stacks of functions that are not inlined, and printf, which hardly cost where they are rare.

References
    ROCm, "Register pressure in AMD CDNA2 GPUs"; LLVM AMDGPU usage, "Private segment".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_bytes
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-scratch", "Scratch memory in use")
_SCRATCH = "Scratch_Per_Workitem"


def _hit(case: Case, _: AmdKernel) -> Hit | None:
    scratch, registers = case.get(_SCRATCH), case.facts.row["registers_per_thread"]
    if not scratch:
        return None
    beside = "" if registers is None else f" beside {registers} vector registers"
    return Hit(case, 0.0, 0.0, f"{format_bytes(int(scratch))} of scratch{beside}")


check = judge_amd_kernels(
    RULE,
    _hit,
    summary="A work-item uses {}.",
    fix="lower the register pressure: __launch_bounds__, smaller tiles, less unrolling; index "
    "small arrays by constants",
    verify="rocprof-compute profile again: Scratch Allocation 0",
)
