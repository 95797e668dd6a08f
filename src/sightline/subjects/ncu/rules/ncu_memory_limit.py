"""The kernel moves data as fast as the memory can: it is at its limit already.

Symptom
    Throughput of the device memory, or of the L2, of 80 % of peak or more.

Why it hurts
    It does not: this kernel cannot run much faster as it is. Tuning its arithmetic, its
    occupancy or its block size will change nothing.

Evidence
    Throughput of device memory (DRAM) and of the L2, % of their peaks; and which part of the L2 is
    as busy, where the report has its breakdown: its input, its output, its tags, its data banks.

Threshold
    80 % (Nsight Compute 2024.1, rule SOLBottleneck: above it a unit is called well utilized, and
    only less work on it gains more). The busier of the two is named.

Fix
    Move less: fuse the kernel with its neighbors so that data passes once, keep what is read again
    in registers, shared memory or L2, use a narrower type.

False positives
    Data that is fetched and not used (see ncu-uncoalesced-global), and stores of parts of sectors
    (see ncu-access-pattern): there the limit is reached by waste.

References
    Williams, Waterman, Patterson, "Roofline" (2009); Nsight Compute, Kernel Profiling Guide,
    "Speed Of Light".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, L2, LIMIT_PCT, UNITS, Case, Limit
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.subjects.ncu._l2 import METRICS as L2_PARTS
from sightline.subjects.ncu._l2 import name_l2_part

RULE = Rule("ncu-memory-limit", "Bound by memory bandwidth")


def _hit(case: Case) -> Hit | None:
    used = [Limit(unit, pct) for unit in (DRAM, L2) if (pct := case.use(unit)) is not None]
    most = max(used, key=lambda limit: limit.pct, default=None)
    if most is None or most.pct < LIMIT_PCT:
        return None
    evidence = f"{most.unit} runs at {format_pct(most.pct)} of its peak"
    if most.unit == L2 and (part := name_l2_part(case)) is not None:
        evidence += f", by {part}"
    # No estimate: at the limit there is nothing left but to move less.
    return Hit(case, 0.0, 0.0, evidence, most.unit)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*UNITS[DRAM], *UNITS[L2]),
    more=L2_PARTS,
    record="--section SpeedOfLight",
    summary="{}: this is the kernel's limit.",
    fix="move less data: fuse it with its neighbors, keep reused data on chip, store "
    "in a narrower type",
    verify="sightline stats memory_hierarchy AFTER: fewer bytes of device memory",
    about_limit=True,
)
