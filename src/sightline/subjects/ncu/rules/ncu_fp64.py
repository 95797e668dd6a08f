"""Double precision runs on a device that is slow at it.

Symptom
    The kernel computes in double precision where the device does 32 or 64 times fewer of these.

Why it hurts
    A few double precision operations take most of the time.

Evidence
    Achieved share of the fp64 peak and the ratio of the peaks (`sightline stats roofline`).

Threshold
    fp64 above 15 % and fp32 under 60 % of its peak (Nsight Compute 2024.1, rule SOLFPRoofline),
    and a device whose fp32 peak is at least 8 times its fp64 peak. Estimate: 1 − fp64 / fp32
    peak, local, weighed with the use of the fp64 pipe. Ours besides: the kernel gets no shorter
    than what memory needs.

Fix
    Compute in single precision where the result allows it; look for constants such as 1.0 without
    f.

False positives
    Work that needs the precision: use a device with fast fp64 (A100, H100, MI250X, MI300X).

References
    Nsight Compute, Kernel Profiling Guide, "Roofline Charts".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import SM, Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.peaks import METRICS, find_compute_peak
from sightline.roofline.placement import METRICS as PLACED

RULE = Rule("ncu-fp64", "FP64 on a GPU that is slow at it")
FP64_PCT = 15.0
FP32_PCT = 60.0
RATIO = 8.0


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, ("gpu__time_duration.sum", *METRICS, *PLACED), "--section SpeedOfLight")
    if not every:
        return
    placed = run.ask("roofline").filter(pl.col("of_peak_pct").is_not_null())
    shares = {(r["kernel_id"], r["precision"]): r["of_peak_pct"] for r in placed.to_dicts()}
    hits = []
    for case in every:
        double = shares.get((case.kernel_id, "fp64"), 0.0)
        single = shares.get((case.kernel_id, "fp32"), 0.0)
        slow, fast = (find_compute_peak(case.facts, p).best for p in ("fp64", "fp32"))
        if double <= FP64_PCT or single >= FP32_PCT or not slow or not fast or fast < RATIO * slow:
            continue
        evidence = f"{format_pct(double)} of the fp64 peak, which is {fast / slow:.0f} times lower"
        # Of the SM's work at most all is in double precision.
        limit = case.find_next_limit({SM: 100.0})
        hits.append(Hit(case, 100 * (1 - slow / fast), double, evidence, next_limit=limit))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence} than the fp32 peak.",
        "compute in single precision where the result allows it, and write constants with f",
        "sightline stats roofline AFTER: no row with precision fp64",
    )
