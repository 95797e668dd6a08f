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

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_amd_cases, make_findings

RULE = Rule("amd-scratch", "Scratch memory in use")
_SCRATCH = "Scratch_Per_Workitem"


def check(run: Run) -> Iterator[Finding]:
    """One note per kernel name."""
    every = load_amd_cases(run)
    hits = [
        Hit(case, 0.0, 0.0, _describe(int(scratch), case.facts.row["registers_per_thread"]))
        for case, _ in every
        if (scratch := case.get(_SCRATCH))
    ]
    yield from make_findings(
        RULE,
        hits,
        [case for case, _ in every],
        lambda h: f"A work-item uses {h.evidence}.",
        "lower the register pressure: __launch_bounds__, smaller tiles, less unrolling; index "
        "small arrays by constants",
        "rocprof-compute profile again: Scratch Allocation 0",
    )


def _describe(scratch: int, registers: int | None) -> str:
    beside = "" if registers is None else f" beside {registers} vector registers"
    return f"{format_bytes(scratch)} of scratch{beside}"
