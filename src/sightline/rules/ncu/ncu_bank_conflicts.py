"""Shared memory accesses collide in its banks.

Symptom
    At least 10 % of the wavefronts of shared memory are only there because of bank conflicts.

Why it hurts
    Threads of a warp that use different words of one bank are served one after the other.

Evidence
    Bank conflicts and wavefronts of shared loads and stores (`sightline stats memory_hierarchy`).

Threshold
    Conflicts ≥ 10 % of wavefronts (Nsight Compute 2024.1, rule SharedMemoryConflicts). Estimate:
    that share, local, weighed with the throughput of the L1.

Fix
    Pad or swizzle the layout so that the threads of a warp use different banks.

False positives
    Asynchronous copies into shared memory may be counted as conflicts of stores.

References
    CUDA C++ Best Practices Guide 12.9, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.profiled import Hit, load_cases, make_findings
from sightline.units import format_pct

RULE = Rule("ncu-bank-conflicts", "Shared memory bank conflicts")
SHARE_PCT = 10.0
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
_OPS = {"ld": "loads", "st": "stores"}


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name, for loads and for stores."""
    looked = [t.format(o) for t in (_CONFLICTS, _WAVEFRONTS) for o in _OPS]
    if not load_cases(run, looked, "--section MemoryWorkloadAnalysis_Tables"):
        return
    every = load_cases(run, (*looked, _L1), "")
    all_waves = {c.kernel_id: sum(c.get(_WAVEFRONTS.format(o)) or 0.0 for o in _OPS) for c in every}
    hits = []
    for case in every:
        for op, word in _OPS.items():
            conflicts, waves = case.get(_CONFLICTS.format(op)), case.get(_WAVEFRONTS.format(op))
            if not conflicts or not waves or 100 * conflicts / waves < SHARE_PCT:
                continue
            # Conflicts of stores matter only as far as stores are part of the traffic.
            part = 100 * conflicts / all_waves[case.kernel_id]
            evidence = f"{format_pct(100 * conflicts / waves)} of the wavefronts of {word}"
            weight = case.get(_L1)
            hits.append(Hit(case, part, 100.0 if weight is None else weight, evidence, word))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence} are due to bank conflicts.",
        "pad or swizzle the shared memory layout",
        "sightline stats memory_hierarchy AFTER: bank conflicts under 10 %",
    )
