"""One block fills an SM: while its last warps run out, no other takes their place.

Symptom
    Blocks of very many threads, of which an SM holds one, and an achieved occupancy below the
    theoretical one.

Why it hurts
    An SM takes the next block when the whole block before it has ended. Warps that end early leave
    their room empty, and every block begins with loads that all its warps wait for at once.

Evidence
    How many blocks fit an SM, its threads, and the occupancy that is reached.

Threshold
    One block of 512 threads or more fits (ours), the occupancy is 10 points below what fits
    (Nsight Compute 2024.1, rule AchievedOccupancy), and there are blocks for two waves. Estimate:
    the part of the warps that are missing, global.

Fix
    Blocks of 128 to 256 threads, of which several share an SM.

False positives
    Blocks whose threads work on one tile of shared memory that needs them all.

References
    CUDA C++ Best Practices Guide, "Thread and Block Heuristics": several blocks an SM, so that one
    runs while another waits at its end.
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import (
    ACHIEVED,
    METRICS,
    count_blocks,
    count_threads,
    read_limits_and_launch,
)
from sightline.roofline.occupancy import compute_occupancy

RULE = Rule(
    "ncu-one-block",
    "One block fills an SM",
    explains=(*WAITS, "ncu-occupancy-achieved", "ncu-occupancy-limit"),
)
LEAST_THREADS, POINTS, WAVES = 512, 10.0, 2


def _hit(case: Case) -> Hit | None:
    known, achieved = read_limits_and_launch(case.facts), case.get(ACHIEVED)
    blocks, threads = count_blocks(case.facts), count_threads(case.facts)
    sms = case.facts.device.get("sm_count")
    if known is None or achieved is None or not (blocks and threads and sms) or not case.waits:
        return None
    fit = compute_occupancy(*known)
    if fit.active_blocks != 1 or threads < LEAST_THREADS or blocks < WAVES * sms:
        return None
    if fit.pct - achieved <= POINTS:
        return None
    evidence = (
        f"an SM holds one block of {format_several(threads, 'thread')}, and {format_pct(achieved)} "
        f"of {format_pct(fit.pct)} occupancy is reached: while the last warps of a block run out, "
        "no other block is there"
    )
    return Hit(case, min(100 * (fit.pct - achieved) / fit.pct, case.headroom), None, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(ACHIEVED,),
    more=METRICS,
    record="--section Occupancy --section LaunchStats",
    fix="launch smaller blocks (128 or 256 threads), of which several share an SM",
    verify="sightline stats occupancy AFTER: achieved_pct nearer to theoretical_pct",
    is_callers=True,
)
