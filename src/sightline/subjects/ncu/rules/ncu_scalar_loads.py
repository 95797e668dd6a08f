"""Warps wait for loads of four bytes a thread, and the memory has room left.

Symptom
    Device memory at 60 to 80 % of its peak, well above everything else, while warps wait for what
    they loaded and hardly any instruction is issued.

Why it hurts
    A memory delivers its peak only while enough bytes are under way: latency times bandwidth
    (Little's law). A warp that asks for one word a thread and then waits has 128 bytes under way;
    with 16 bytes a thread, or four such loads before the first result is used, it has 512.

Evidence
    Sectors for each request of global loads (4: a warp's neighboring words), the bytes that are
    used of a sector, and the share of the waits for them.

Threshold
    Memory at 60 to 80 % (Nsight Compute 2024.1, rule SOLBottleneck: latency bound below, at its
    limit above); more than half of the time between two instructions of a warp waits for memory
    (ours). The estimate ends where the memory is at its limit by that rule, and is global.

Fix
    Vector loads (float4, or a pointer that is reinterpreted, where the address is a multiple of
    16), or several independent loads first and their arithmetic behind them (#pragma unroll).

False positives
    A memory that is busy with stores or atomics of many kernels at once; loads whose addresses are
    known only from the load before.

References
    NVIDIA, "CUDA Pro Tip: Increase Performance with Vectorized Memory Access"; Volkov, "Better
    Performance at Lower Occupancy" (GTC 2010).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, LIMIT_PCT, UNITS, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.diagnosis.stall_advice import STALLED, WARP_LATENCY
from sightline.roofline.placement import LATENCY_PCT
from sightline.subjects.ncu._loads import REQUESTS, SECTORS, USED_BYTES, WHOLE_SECTOR

RULE = Rule("ncu-scalar-loads", "Loads of one word a thread", explains=("ncu-busiest-unit", *WAITS))

_WAIT = STALLED.format("long_scoreboard")
# Four bytes of 32 neighboring threads are four sectors of 32 bytes (Kernel Profiling Guide, "Memory
# Tables"); some lie on a border, and some are of warps at an edge (ours).
_LEAST_SECTORS, _MOST_SECTORS = 3.5, 5.0
_MOST_PCT = 50.0


def _hit(case: Case) -> Hit | None:
    now = case.busiest
    if now is None or now.unit != DRAM or not LATENCY_PCT <= now.pct < LIMIT_PCT:
        return None
    requests, sectors = case.get(REQUESTS), case.get(SECTORS)
    wait, latency = case.get(_WAIT), case.get(WARP_LATENCY)
    if not requests or sectors is None or wait is None or not latency:
        return None
    if not _LEAST_SECTORS <= sectors / requests <= _MOST_SECTORS:
        return None
    if (case.get(USED_BYTES) or WHOLE_SECTOR) < WHOLE_SECTOR:
        return None
    share = 100 * wait / latency
    if share <= _MOST_PCT:
        return None
    return Hit(
        case,
        100 * (1 - now.pct / LIMIT_PCT),
        None,
        f"device memory at {format_pct(now.pct)} of its peak; {format_pct(share)} of a warp's time "
        f"waits for loads of {sectors / requests:.1f} sectors a request",
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*UNITS[DRAM], REQUESTS, SECTORS, _WAIT, WARP_LATENCY),
    more=(USED_BYTES,),
    record="--section MemoryWorkloadAnalysis_Tables --section WarpStateStats",
    summary="{}: too few bytes are in flight.",
    fix="load 16 bytes a thread (float4, uint4), or several words before the first of them is "
    "used (#pragma unroll): more bytes are then in flight; read data that is needed twice only "
    "once (registers, shared memory)",
    verify="sightline stats speed_of_light AFTER: device memory nearer to its peak",
)
