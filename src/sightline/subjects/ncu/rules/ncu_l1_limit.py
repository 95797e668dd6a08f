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
    unit gains more), and a hit rate of 50 % or more (ours: most of it is read again); or shared
    memory as most of the L1's work, and a load for every two multiply-adds or more (ours: a tile of
    4 × 4 results a thread loads one value for two). Estimate: such a tile uses each loaded value
    four times, so a quarter of the loads is left, with a quarter of all else but the arithmetic
    (Volkov: four results a thread and more); where operations were not counted, what hits is read
    once. The kernel shrinks to what the next unit needs, which may then be as busy as the L1 is
    today.

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

from typing import NamedTuple

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import ISSUE, L1, LIMIT_PCT, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import WARP

RULE = Rule(
    "ncu-l1-limit",
    "Bound by the L1",
    explains=(
        *WAITS,
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
        "ncu-pipe-limit",
        "ncu-access-pattern",
    ),
)
AGAIN_PCT = 50.0
LEAST_LOADS, MOST_LOADS = 0.5, 4.0  # for each multiply-add; with more, it is not these it is for
_HITS = "l1tex__t_sector_hit_rate.pct"
_REQUESTS = [
    f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{op}.sum"
    for space in ("global", "local")
    for op in ("ld", "st")
]
_SHARED = [f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")]


_LOADS = ("LDG", "LDS", "LD.", "LDL")
_FMA = ("FFMA", "HFMA2", "DFMA")
_LOADED = (_REQUESTS[0], _REQUESTS[2], "smsp__inst_executed_op_shared_ld.sum")
_MULTIPLIED = [f"smsp__sass_thread_inst_executed_op_{t}fma_pred_on.sum" for t in "fhd"]
_EXECUTED = "smsp__inst_executed.sum"
REUSE = 4.0  # results a thread computes of each value that it loads


class Counts(NamedTuple):
    """Instructions of a kernel, counted once per warp."""

    loads: float
    products: float  # floating-point multiply-adds
    addresses: float  # integer multiply-adds, which take the same pipe
    whole: float

    @property
    def has_no_reuse(self) -> bool:
        """Whether about as much is loaded as is multiplied."""
        few, many = LEAST_LOADS * self.products, MOST_LOADS * self.products
        return bool(self.products) and few <= self.loads <= many


def _count(case: Case) -> Counts:
    """By operation where these were counted, else by what the units did."""
    if case.instructions:
        return Counts(
            case.count_opcodes(*_LOADS),
            case.count_opcodes(*_FMA),
            case.count_opcodes("IMAD"),
            case.instructions,
        )
    loads = sum(case.get(name) or 0.0 for name in _LOADED)
    products = sum(case.get(name) or 0.0 for name in _MULTIPLIED) / WARP
    whole = case.get(_EXECUTED) or 0.0
    return Counts(loads, products if whole else 0.0, 0.0, whole)


def _hit(case: Case) -> Hit | None:
    used, again = case.use(L1), case.get(_HITS)
    if used is None or used < LIMIT_PCT:
        return None
    requests, shared = (sum(case.get(n) or 0.0 for n in names) for names in (_REQUESTS, _SHARED))
    counts = _count(case)
    if shared > requests:
        if not counts.has_no_reuse:
            return None
        evidence = f"the L1 is used at {format_pct(used)} of its peak, mostly as shared memory"
    elif again is None or again < AGAIN_PCT:
        return None
    else:
        evidence = (
            f"the L1 is used at {format_pct(used)} of its peak, and {format_pct(again)} of the "
            "accesses hit it"
        )
    if not counts.has_no_reuse:
        return relieve(case, {L1: again or 0.0}, evidence)
    less = 100 * (1 - 1 / REUSE)
    # All but the arithmetic is done once for as many results; the FMA pipe does addresses, too.
    issued = less * (1 - counts.products / counts.whole)
    pipe = less * counts.addresses / (counts.addresses + counts.products)
    return relieve(
        case,
        {L1: less},
        f"{evidence}; {counts.loads / counts.products:.1f} loads for each multiply-add: nothing is "
        "used again in registers",
        parts={"lsu": less, "alu": less, ISSUE: issued}
        | dict.fromkeys(("fma", "fmaheavy", "fmalite"), pipe),
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_HITS,),
    more=(*_REQUESTS, *_SHARED, *_LOADED, *_MULTIPLIED, _EXECUTED),
    record="--section MemoryWorkloadAnalysis",
    fix="compute several results from what a thread has loaded (register tiles), stage tiles in "
    "shared memory, load wider (float4)",
    verify="sightline stats memory_hierarchy AFTER: l1 throughput",
)
