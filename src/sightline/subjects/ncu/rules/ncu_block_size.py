"""The block size is no multiple of the warp size.

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

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.launch import count_threads

RULE = Rule("ncu-block-size", "Block size not a multiple of the warp size")
_METRICS = ("launch__block_size", "gpu__time_duration.sum")
WARP = 32


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, _METRICS, "--section LaunchStats")
    hits = []
    for case in every:
        threads = count_threads(case.facts)
        if threads and threads % WARP:
            lanes = -(-threads // WARP) * WARP
            idle = 100 * (lanes - threads) / lanes
            hits.append(Hit(case, idle, case.light, f"{threads} threads in {lanes // WARP} warps"))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}: {format_pct(h.local_pct)} of the lanes are idle.",
        "launch a multiple of 32 threads per block and mask the surplus ones",
        "sightline stats launch_shape AFTER: idle_lanes_pct is 0",
    )
