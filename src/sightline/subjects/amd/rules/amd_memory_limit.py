"""The kernel moves data as fast as the device memory can: it is at its limit already.

Symptom
    Reads and writes of the L2 beyond it reach 80 % of the device memory's bandwidth or more.

Why it hurts
    It does not: this kernel cannot run much faster as it is. Tuning its arithmetic, its occupancy
    or its work-group size will change nothing.

Evidence
    L2-Fabric read and write bandwidth, % of the peak (`sightline stats amd_speed_of_light`).

Threshold
    80 % (Nsight Compute 2024.1, rule SOLBottleneck: above it a unit is called well utilized, and
    only less work on it gains more).

Fix
    Move less: fuse the kernel with its neighbors so that data passes once, keep what is read again
    in registers, LDS or L2, use a narrower type.

False positives
    The fabric also carries what the Infinity Cache answers, and copies between dies: there the
    memory itself may do less.

References
    ROCm Compute Profiler, "L2 cache (TCC)", "L2-Fabric transactions"; Williams, Waterman,
    Patterson, "Roofline" (2009).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Hit
from sightline.diagnosis.profiled import load_amd_cases, make_findings

RULE = Rule("amd-memory-limit", "Bound by device memory")


def check(run: Run) -> Iterator[Finding]:
    """One note per kernel name: what it would gain is nothing."""
    every = load_amd_cases(run, "L2-Fabric Read BW", "L2-Fabric Write BW")
    # No estimate: at the limit there is nothing left but to move less.
    hits = [
        Hit(case, 0.0, 0.0, f"device memory runs at {format_pct(kernel.fabric_pct)} of its peak")
        for case, kernel in every
        if kernel.fabric_pct is not None and kernel.fabric_pct >= LIMIT_PCT
    ]
    yield from make_findings(
        RULE,
        hits,
        [case for case, _ in every],
        lambda h: f"{h.evidence}: this is the kernel's limit.",
        "move less data: fuse it with its neighbors, keep reused data on chip, store "
        "in a narrower type",
        "sightline stats amd_speed_of_light AFTER: less traffic of L2-Fabric",
        about_limit=True,
    )
