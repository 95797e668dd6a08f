"""The kernel moves data as fast as the device memory can: it is at its limit already.

Symptom
    Device memory throughput of 80 % of peak or more.

Why it hurts
    It does not: this kernel cannot run much faster as it is. Tuning its arithmetic, its
    occupancy or its block size will change nothing.

Evidence
    Throughput of the device memory (DRAM), % of its peak.

Threshold
    80 % (Nsight Compute 2024.1, rule SOLBottleneck: above it a unit is called well utilized, and
    only less work on it gains more).

Fix
    Move less: fuse the kernel with its neighbors so that data passes once, keep what is read again
    in registers, shared memory or L2, use a narrower type.

False positives
    Data that is fetched and not used (see ncu-uncoalesced-global): there the limit is reached by
    waste.

References
    Williams, Waterman, Patterson, "Roofline" (2009); Nsight Compute, Kernel Profiling Guide,
    "Speed Of Light".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Hit
from sightline.diagnosis.profiled import load_cases, make_findings

RULE = Rule("ncu-memory-limit", "Bound by device memory")
_DRAM = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)


def check(run: Run) -> Iterator[Finding]:
    """One note per kernel name: what it would gain is nothing."""
    every = load_cases(run, _DRAM, "--section SpeedOfLight")
    # No estimate: at the limit there is nothing left but to move less.
    hits = [
        Hit(case, 0.0, 0.0, f"device memory runs at {format_pct(used)} of its peak")
        for case in every
        if (used := case.get(*_DRAM)) is not None and used >= LIMIT_PCT
    ]
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}: this is the kernel's limit.",
        "move less data: fuse it with its neighbors, keep reused data on chip, store "
        "in a narrower type",
        "sightline stats memory_hierarchy AFTER: fewer bytes of device memory",
        about_limit=True,
    )
