"""One SM works long after the others, though none executes more than the others do.

Symptom
    An SM is active several times as long as the average, with as many instructions as the others.

Why it hurts
    The work is even: on that SM a few warps wait for something that takes longer than the kernel
    does without it. Mostly it is a page of unified memory that the host has written since, which
    moves under the kernel: a flag or a counter in a `__managed__` variable is enough.

Evidence
    Active cycles and executed instructions of the SMs, average and maximum.

Threshold
    The average SM is active under 30 % as long as the longest, which executes under 1.5 times the
    average, and no throughput reaches 10 % of its peak (all ours: work that is uneven differs in
    its instructions, too). Estimate, global: the cycles from the average's end to the last one's.

Fix
    Keep what the host sets before each launch in device memory (cudaMemsetAsync, cudaMemcpyAsync),
    and read results back by a copy; or prefetch the pages (cudaMemPrefetchAsync).

False positives
    Warps that wait for a lock or for another block and sleep meanwhile (`__nanosleep`).

References
    CUDA C++ Programming Guide, "Unified Memory Programming": pages move on a fault.
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels

RULE = Rule(
    "ncu-waiting-sm",
    "A few warps wait, long after the others",
    explains=(*WAITS, "ncu-imbalance", "ncu-occupancy-achieved", "ncu-lone-warps"),
)
ACTIVE_SHARE, EVEN_TIMES, IDLE_PCT = 0.3, 1.5, 10.0
_MEAN, _MOST, _WHOLE = (
    f"sm__cycles_{which}" for which in ("active.avg", "active.max", "elapsed.max")
)
# The same of each unit, by what reports have: counts, else shares of a peak.
_EXECUTED = tuple(
    (f"{name}.avg{ending}", f"{name}.max{ending}")
    for name in ("sm__inst_executed", "smsp__inst_executed")
    for ending in ("", ".pct_of_peak_sustained_elapsed")
)


def _hit(case: Case) -> Hit | None:
    mean, most, whole = case.get(_MEAN), case.get(_MOST), case.get(_WHOLE)
    if mean is None or not most or not whole or mean >= ACTIVE_SHARE * most:
        return None
    if case.light is None or case.light >= IDLE_PCT:
        return None
    pairs = ((case.get(average), case.get(largest)) for average, largest in _EXECUTED)
    executed = next(((a, b) for a, b in pairs if a and b), None)
    if executed is None or executed[1] >= EVEN_TIMES * executed[0]:
        return None
    evidence = (
        f"one SM is active for {format_pct(100 * most / whole)} of the kernel, the average one for "
        f"{format_pct(100 * mean / whole)}, and none executes more than "
        f"{executed[1] / executed[0]:.1f} times the average's instructions"
    )
    return Hit(case, 100 * min(1.0, (most - mean) / whole), None, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_MOST,),
    more=(_MEAN, _WHOLE, *(name for pair in _EXECUTED for name in pair)),
    record="--section WorkloadDistribution",
    fix="keep what the host sets or reads around each launch (a flag, a counter) in device memory, "
    "not in unified memory, whose page moves under the kernel: cudaMemsetAsync before it, a copy "
    "to pinned memory after it; or cudaMemPrefetchAsync",
    verify="ncu --section WorkloadDistribution AFTER: average and maximum nearer to each other",
)
