"""The L1 is at its limit with data that it has served before.

Symptom
    L1 throughput of 80 % of peak or more, and most loads hit.

Why it hurts
    The same data passes from the cache to the registers again and again. Device memory and the L2
    have little to do, and the arithmetic waits for the L1.

Evidence
    The L1's throughput and hit rate (`sightline stats memory_hierarchy`), and which unit is the
    next limit.

Threshold
    80 % of the L1's peak (Nsight Compute 2024.1, rule SOLBottleneck: above it only less work on the
    unit gains more), and a hit rate of 50 % or more (ours: most of it is read again). Of kernels
    that mostly use shared memory, which is the L1's, too, the hits say nothing. Estimate: the hits,
    weighed with the L1's throughput, and not more than what the next unit leaves. It is a bound:
    how much of what is read again can stay in registers, no counter tells. A rewrite that needs
    fewer instructions, too, may gain more.

Fix
    Let each thread compute several results from what it has loaded (register tiles), load tiles
    into shared memory once, and load wider (float4).

False positives
    Tables that are read at random: there nothing is known to be read again.

References
    Volkov, "Better Performance at Lower Occupancy" (GTC 2010); CUDA C++ Best Practices Guide,
    "Shared Memory in Matrix Multiplication"; Nsight Compute, Kernel Profiling Guide, "Memory
    Tables".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import L1, LIMIT_PCT, Case, Hit
from sightline.diagnosis.profiled import load_cases, make_findings

RULE = Rule("ncu-l1-limit", "Bound by the L1", explains=("ncu-stall", "ncu-issue-slots"))
AGAIN_PCT = 50.0
_HITS = "l1tex__t_sector_hit_rate.pct"
_REQUESTS = [
    f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{op}.sum"
    for space in ("global", "local")
    for op in ("ld", "st")
]
_SHARED = [f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")]


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    if not load_cases(run, (_HITS,), "--section MemoryWorkloadAnalysis"):
        return
    every = load_cases(run, (_HITS, *_REQUESTS, *_SHARED), "")
    yield from make_findings(
        RULE,
        [hit for case in every if (hit := _hit(case)) is not None],
        every,
        lambda h: f"{h.evidence}.",
        "compute several results from what a thread has loaded (register tiles), stage tiles in "
        "shared memory, load wider (float4)",
        "sightline stats memory_hierarchy AFTER: l1 throughput",
    )


def _hit(case: Case) -> Hit | None:
    used, again = case.use(L1), case.get(_HITS)
    if used is None or again is None or used < LIMIT_PCT or again < AGAIN_PCT:
        return None
    loads, shared = (sum(case.get(n) or 0.0 for n in names) for names in (_REQUESTS, _SHARED))
    if shared > loads:
        return None
    return Hit(
        case,
        again,
        used,
        f"the L1 is used at {format_pct(used)} of its peak, and {format_pct(again)} of what it is "
        "asked for it has had before",
        next_limit=case.find_next_limit({L1: again}),
        relieves_limit=True,
    )
