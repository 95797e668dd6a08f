"""Some SMs work much longer than others.

Symptom
    The busiest SM, cache slice or memory channel is active much longer than the average.

Why it hurts
    The kernel ends when the last one does.

Evidence
    Average and maximum of active cycles per unit.

Threshold
    (1 − average / maximum) × active / elapsed ≥ 5 % (Nsight Compute 2024.1, rule
    WorkloadImbalance). Estimate, global, of SMs (or of schedulers, where SMs are even): the cycles
    from the average's end to the last one's. Of caches and memory, only where that unit binds the
    kernel (the busiest unit, at 60 % of its peak or more): by so much its busiest part could have
    less to do.

Fix
    Even out the work of blocks; launch more, smaller blocks; let blocks fetch their work.

False positives
    Grids smaller than the device (see ncu-small-grid).

References
    Nsight Compute, Kernel Profiling Guide, "Workload Distribution".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, L1, L2, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("ncu-imbalance", "Workload imbalance between units")
SHARE_PCT = 5.0
# Unit: average, maximum and elapsed cycles, and whether it is the SM itself.
_UNITS = {
    word: tuple(f"{unit}__cycles_{which}" for which in ("active.avg", "active.max", "elapsed.max"))
    for word, unit in (
        ("SMs", "sm"),
        ("schedulers", "smsp"),
        ("L1 caches", "l1tex"),
        ("L2 slices", "lts"),
        ("memory channels", "dram"),
    )
}
_OWN = ("SMs", "schedulers")
_BOUND = {"L1 caches": L1, "L2 slices": L2, "memory channels": DRAM}


def _find(case: Case) -> Iterator[Hit]:
    uneven = {}
    for unit, names in _UNITS.items():
        mean, most, whole = (case.get(name) for name in names)
        if mean is None or not most or not whole:
            continue
        if 100 * (1 - mean / most) * mean / whole >= SHARE_PCT:
            uneven[unit] = mean, most, whole
    own = next((unit for unit in _OWN if unit in uneven), None)
    now = case.busiest
    for unit, (mean, most, whole) in uneven.items():
        evidence = f"{unit} are active {format_pct(100 * mean / most)} as long as the busiest"
        if unit == own:
            yield Hit(case, 100 * min(1.0, (most - mean) / whole), None, evidence, unit)
        elif now is not None and _BOUND.get(unit) == now.unit and now.pct >= LATENCY_PCT:
            hit = Hit(case, 100 * (1 - mean / most), now.pct, evidence, unit)
            yield replace(hit, relieves_limit=True)


check = judge_kernels(
    RULE,
    _find,
    metrics=[most for _, most, _ in _UNITS.values()],
    more=[m for names in _UNITS.values() for m in names],
    record="--section WorkloadDistribution",
    summary="On average {} one.",
    fix="even out the work of blocks, or launch more, smaller ones that fetch their work",
    verify="ncu --section WorkloadDistribution AFTER: average and maximum nearer to each other",
)
