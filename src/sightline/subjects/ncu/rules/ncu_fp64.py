"""The FP64 pipe binds the kernel, and single precision has a faster one.

Symptom
    The FP64 pipe is the busiest part of the SM, or the device does 8 to 64 times fewer operations
    in double than in single precision and the kernel has a share of them.

Why it hurts
    Double precision runs at half the rate of single precision on the GPUs made for it, and at a
    32nd or 64th on the others. Division, square root and conversions take more instructions, too.

Evidence
    Busy cycles of the FP64 pipe, the achieved share of the fp64 peak, and the ratio of the peaks
    (`sightline stats roofline`).

Threshold
    FP64 pipe at 60 % of its peak or more and the busiest unit of the kernel (Nsight Compute,
    rule HighPipeUtilization: from 60 % on). Or fp64 above 15 % and fp32 under 60 % of its peak
    (Nsight Compute 2024.1, rule SOLFPRoofline), and a device whose fp32 peak is at least 8
    times its fp64 peak. Or conversions between the two precisions are half of what the XU pipe
    does, at 60 % of its peak or more, while no unit is busier than the SM. Estimate: 1 − fp64 /
    fp32 peak, of the whole kernel where the pipe binds it, else weighed with the use of the
    fp64 pipe; of conversions what the next part of the SM leaves. Ours besides: the kernel gets
    no shorter than what memory and the other parts of the SM need, and what it issues.

Fix
    Compute in single precision where the result allows it; look for constants such as 1.0 without
    f, and for functions such as sqrt() and sin() of double where those of float are meant.

False positives
    Work that needs the precision. How far the result allows less, no counter tells.

References
    Nsight Compute, Kernel Profiling Guide, "Roofline Charts"; CUDA C++ Programming Guide,
    "Arithmetic Instructions" (throughput by type).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import ISSUE, PARTS, SM, WAITS, XU, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import make_findings
from sightline.roofline.peaks import METRICS, find_compute_peak
from sightline.roofline.placement import LATENCY_PCT
from sightline.roofline.placement import METRICS as PLACED

RULE = Rule(
    "ncu-fp64",
    "Double precision binds the kernel",
    explains=(
        *WAITS,
        "ncu-no-fma",
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
        "ncu-pipe-limit",
    ),
)
FP64_PCT = 15.0
FP32_PCT = 60.0
RATIO = 8.0
MOST_PCT = 50.0  # ours: of the work of a pipe
SAME_POINTS = 1.0  # ours: two figures of one unit, taken in different passes, differ by less


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
        pipe, now = case.use("fp64") or 0.0, case.busiest
        if not slow or not fast or slow >= fast:
            continue
        if (converted := _find_conversions(case, slow / fast)) is not None:
            hits.append(converted)
            continue
        is_bound = pipe >= LATENCY_PCT and (now is None or pipe >= now.pct - SAME_POINTS)
        is_slow = double > FP64_PCT and single < FP32_PCT and fast >= RATIO * slow
        if not is_bound and not is_slow:
            continue
        limit = case.find_next_limit(_list_relieved(case, slow / fast))
        used = pipe if is_bound else double
        evidence = (
            f"the FP64 pipe is at {format_pct(pipe)} of its peak"
            if is_bound
            else f"{format_pct(double)} of the fp64 peak"
        ) + f", which is {fast / slow:.0f} times lower than the fp32 peak"
        weight = None if is_bound else used
        hits.append(
            Hit(
                case,
                100 * (1 - slow / fast),
                weight,
                evidence,
                next_limit=limit,
                relieves_limit=is_bound,
            )
        )
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}.",
        "compute in single precision where the result allows it, and write constants with f",
        "sightline stats roofline AFTER: no row with precision fp64",
    )


def _list_relieved(case: Case, ratio: float) -> dict[str, float]:
    """What has less to do in single precision, % of its work.

    As many instructions are issued as before, but for the conversions: where each was counted, and
    none is part of a division or a root of double precision, which take a dozen each (MUFU.RCP64H,
    MUFU.RSQ64H). Else at most all of the SM's work is in double precision.
    """
    is_counted = any(case.use(part) is not None for part in PARTS if part != "fp64")
    if not is_counted or not case.facts.opcodes or any("64H" in op for op in case.facts.opcodes):
        return {SM: 100.0}
    freed = 100 * (1 - ratio)
    relieved = {"fp64": freed, "shared": freed}
    done = sum(n for op, n in case.facts.opcodes.items() if op.startswith("F2F") and ".F64" in op)
    if done:
        relieved["xu"] = min(100.0, 100 * done / max(case.count_opcodes(*XU), 1.0))
        relieved[ISSUE] = 100 * done / max(case.instructions, 1.0)
    return relieved


def _find_conversions(case: Case, ratio: float) -> Hit | None:
    """The hit of a kernel whose conversions between single and double precision bind it."""
    slow, now = case.use("xu"), case.busiest
    if slow is None or now is None or now.unit != SM or slow < LATENCY_PCT:
        return None
    done = sum(n for op, n in case.facts.opcodes.items() if op.startswith("F2F") and ".F64" in op)
    share = 100 * done / max(case.count_opcodes(*XU), 1.0)
    if share < MOST_PCT:
        return None
    parts = {
        "xu": share,
        ISSUE: 100 * done / case.instructions,
        **dict.fromkeys(("fp64", "shared"), 100 * (1 - ratio)),
    }
    return relieve(
        case,
        {SM: 100.0},
        f"conversions between single and double precision are {format_pct(share)} of what keeps "
        f"the XU pipe at {format_pct(slow)} of its peak",
        parts=parts,
    )
