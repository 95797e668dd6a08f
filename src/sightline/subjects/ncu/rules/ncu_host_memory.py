"""The kernel reads memory of the host or of another GPU.

Symptom
    Much of what misses the L2 is fetched over PCIe or NVLink.

Why it hurts
    These links are 10 to 100 times slower than device memory.

Evidence
    Misses of the L2 by where their data lies (`sightline stats memory_hierarchy`), and how many
    bytes a second that is.

Threshold
    Over 40 % of the misses go to host or peer memory (Nsight Compute 2024.1, rule
    MemoryApertureUsage; it asks for an L2 that is busy, too, which it is not where the link is the
    limit). Or over 10 % where neither throughput reaches 60 %: over a link that is 10 to 100 times
    slower, a tenth of the data takes longer than the rest. And at least 1 GB/s (ours: no link is
    near its limit with less). Where misses were not counted, over 40 % of what fills the L2 comes
    from there, at 0.05 % of what the L2 can take (ours: about 1 GB/s), and neither throughput
    reaches 60 %; or nine tenths, at 0.01 %, where both stay under 5 % (ours: atomics and single
    words fill a link with little). Estimate, global: with that data in device memory, the kernel is
    as long as its busiest unit needs, device memory with so many bytes more.

Fix
    Copy the data once, or prefetch managed memory (cudaMemPrefetchAsync), before the kernel runs.

False positives
    Kernels whose purpose is the transfer, as those of NCCL.

References
    Nsight Compute, Kernel Profiling Guide, "Memory Chart".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Rule
from sightline.core.units import format_bytes, format_pct
from sightline.diagnosis.kernel_bounds import DRAM, WAITS, Case, Limit
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.peaks import METRICS as PEAKS
from sightline.roofline.peaks import find_memory_peak

RULE = Rule(
    "ncu-host-memory",
    "Data fetched from the host or a peer",
    explains=(*WAITS, "ncu-occupancy-achieved", "ncu-access-pattern", "ncu-uncoalesced-global"),
)
MISS_PCT, WAITING_MISS_PCT = 40.0, 10.0
LEAST_BYTES_PER_S = 1e9
SECTOR = 32
_MISS = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"
_FILL = "lts__d_sectors_fill_{}.avg.pct_of_peak_sustained_elapsed"
LEAST_FILL_PCT = 0.05
NEARLY_ALL_PCT, IDLE_PCT, LEAST_ALONE_PCT = 90.0, 5.0, 0.01
_APERTURES = {"device": "device memory", "sysmem": "host memory", "peer": "memory of another GPU"}


def _hit(case: Case, aperture: str) -> Hit | None:
    missed = {a: case.get(_MISS.format(a)) or 0.0 for a in _APERTURES}
    total = sum(missed.values())
    least = WAITING_MISS_PCT if case.waits and case.light is not None else MISS_PCT
    if not total or 100 * missed[aperture] / total <= least:
        return None
    evidence = (
        f"{format_pct(100 * missed[aperture] / total)} of the misses of the L2 go to "
        f"{_APERTURES[aperture]}"
    )
    if not case.facts.seconds:
        return Hit(case, 100 * missed[aperture] / total, 100.0, evidence, _APERTURES[aperture])
    rate = missed[aperture] * SECTOR / case.facts.seconds
    if rate < LEAST_BYTES_PER_S:
        return None
    peak, limit = find_memory_peak(case.facts, "dram").best, case.find_next_limit({})
    needed = (case.use(DRAM) or 0.0) + (100 * rate / peak if peak else 0.0)
    if limit is None or needed > limit.pct:
        limit = Limit(DRAM, min(needed, 100.0))
    return Hit(
        case,
        100.0 - limit.pct,
        None,
        f"{evidence}, at {format_bytes(rate)}/s",
        _APERTURES[aperture],
        limit,
        relieves_limit=True,
    )


def _hit_by_fills(case: Case) -> Hit | None:
    """What fills the L2, as the speed of light breaks it down, where misses were not counted."""
    fills = {a: case.get(_FILL.format(a)) or 0.0 for a in _APERTURES}
    total, host = sum(fills.values()), fills["sysmem"]
    if not case.waits or not total or 100 * host / total <= MISS_PCT:
        return None
    # A link that is full of atomics or single words moves little, and nothing else is at work.
    is_idle = case.light is not None and case.light <= IDLE_PCT
    alone = is_idle and 100 * host / total >= NEARLY_ALL_PCT
    if host < (LEAST_ALONE_PCT if alone else LEAST_FILL_PCT):
        return None
    limit = case.find_next_limit({})
    return Hit(
        case,
        100.0 - (0.0 if limit is None else limit.pct),
        None,
        f"{format_pct(100 * host / total)} of what fills the L2 comes from host memory",
        _APERTURES["sysmem"],
        limit,
        relieves_limit=True,
    )


def _find(case: Case) -> Iterator[Hit]:
    if all(case.get(_MISS.format(a)) is None for a in _APERTURES):
        hit = _hit_by_fills(case)
        return iter([] if hit is None else [hit])
    return (hit for a in ("sysmem", "peer") if (hit := _hit(case, a)) is not None)


check = judge_kernels(
    RULE,
    _find,
    metrics=[name.format(a) for name in (_MISS, _FILL) for a in _APERTURES],
    more=PEAKS,
    record="--section MemoryWorkloadAnalysis_Chart",
    fix="copy the data to the device once (cudaMalloc and cudaMemcpy: memory from cudaMallocHost "
    "stays on the host), or prefetch managed memory, before the kernel runs",
    verify="sightline stats memory_hierarchy AFTER: misses go to device",
)
