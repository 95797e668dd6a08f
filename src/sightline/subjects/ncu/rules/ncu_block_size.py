"""The block size is not a multiple of the warp size.

Symptom
    A block has a number of threads that 32 does not divide.

Why it hurts
    The last warp of each block runs with idle lanes.

Evidence
    Threads per block and the idle lanes of its warps (`sightline stats launch_shape`).

Threshold
    Threads % 32 ≠ 0 (Nsight Compute 2024.1, rule LaunchConfiguration). Estimate: idle lanes of
    all lanes, local, weighed with the throughput that the kernel reaches.

Fix
    Use a multiple of 32, and mask the surplus threads; 128 to 256 is a good start.

False positives
    Blocks whose shape the algorithm fixes, as small tiles.

References
    CUDA C++ Best Practices Guide 12.9, "Thread and Block Heuristics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME
from sightline.roofline.launch import count_threads

RULE = Rule("ncu-block-size", "Block size not a multiple of the warp size")
_METRICS = ("launch__block_size", "gpu__time_duration.sum")
WARP = 32


def _hit(case: Case) -> Hit | None:
    threads = count_threads(case.facts)
    if not threads or not threads % WARP:
        return None
    lanes = -(-threads // WARP) * WARP
    idle = 100 * (lanes - threads) / lanes
    evidence = f"{format_several(threads, 'thread')} in {format_several(lanes // WARP, 'warp')}"
    return Hit(case, idle, case.light, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=("launch__block_size", TIME),
    record="--section LaunchStats",
    summary=lambda h: f"{h.evidence}: {format_pct(h.local_pct)} of the lanes are idle.",
    fix="launch a multiple of 32 threads per block and mask the surplus ones",
    verify="sightline stats launch_shape AFTER: idle_lanes_pct is 0",
    is_callers=True,
)
