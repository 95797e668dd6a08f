"""Some SMs work much longer than others.

Symptom
    The busiest SM, cache slice or memory channel is active much longer than the average.

Why it hurts
    The kernel ends when the last one does.

Evidence
    Average and maximum of active cycles per unit.

Threshold
    (1 − average / maximum) × active / elapsed ≥ 5 % (Nsight Compute 2024.1, rule
    WorkloadImbalance). Estimate: that product, global for SMs, local for caches and memory.

Fix
    Even out the work of blocks; launch more, smaller blocks; let blocks fetch their work.

False positives
    Grids smaller than the device (see ncu-small-grid).

References
    Nsight Compute, Kernel Profiling Guide, "Workload Distribution".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.placement import MEMORY_PCT

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


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name and unit."""
    maxima = [m for _, m, _ in _UNITS.values()]
    if not load_cases(run, maxima, "--section WorkloadDistribution"):
        return
    every = load_cases(run, [m for names in _UNITS.values() for m in names], "")
    hits = []
    for case in every:
        for unit, (average, maximum, elapsed) in _UNITS.items():
            mean, most, whole = case.get(average), case.get(maximum), case.get(elapsed)
            if mean is None or not most or not whole:
                continue
            share = 100 * (1 - mean / most) * mean / whole
            if share >= SHARE_PCT:
                evidence = (
                    f"{unit} are active {format_pct(100 * mean / most)} as long as the busiest"
                )
                weight = None if unit in _OWN else case.get(MEMORY_PCT)
                hits.append(Hit(case, share, weight, evidence, unit))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"On average {h.evidence} one.",
        "even out the work of blocks, or launch more, smaller ones that fetch their work",
        "ncu --section WorkloadDistribution AFTER: average and maximum nearer to each other",
    )
