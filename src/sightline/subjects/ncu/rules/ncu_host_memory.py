"""The kernel reads memory of the host or of another GPU.

Symptom
    Much of what misses the L2 is fetched over PCIe or NVLink.

Why it hurts
    These links are 10 to 100 times slower than device memory.

Evidence
    Misses of the L2 by where their data lies (`sightline stats memory_hierarchy`).

Threshold
    L2 throughput for the SMs over 50 % or not measured, and over 40 % of the misses go to host or
    peer memory (Nsight Compute 2024.1, rule MemoryApertureUsage). Estimate: their share of the
    misses, local, weighed with the memory throughput.

Fix
    Copy the data once, or prefetch managed memory (cudaMemPrefetchAsync), before the kernel runs.

False positives
    Kernels whose purpose is the transfer, as those of NCCL.

References
    Nsight Compute, Kernel Profiling Guide, "Memory Chart".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.placement import MEMORY_PCT

RULE = Rule("ncu-host-memory", "Data fetched from the host or a peer")
MISS_PCT = 40.0
BUSY_PCT = 50.0
_MISS = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"
_BUSY = "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed"
_APERTURES = ("device", "sysmem", "peer")


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name and kind of memory."""
    looked = [_MISS.format(a) for a in _APERTURES]
    if not load_cases(run, looked, "--section MemoryWorkloadAnalysis_Chart"):
        return
    every = load_cases(run, (*looked, _BUSY), "")
    hits = []
    for case in every:
        missed = {a: case.get(_MISS.format(a)) or 0.0 for a in _APERTURES}
        busy, total = case.get(_BUSY), sum(missed.values())
        if not total or (busy is not None and busy < BUSY_PCT):
            continue
        for aperture, word in (("sysmem", "host memory"), ("peer", "memory of another GPU")):
            share = 100 * missed[aperture] / total
            if share > MISS_PCT:
                weight = case.get(MEMORY_PCT)
                evidence = f"{format_pct(share)} of the misses of the L2 go to {word}"
                hits.append(Hit(case, share, 100.0 if weight is None else weight, evidence, word))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}.",
        "copy the data to the device once, or prefetch managed memory, before the kernel runs",
        "sightline stats memory_hierarchy AFTER: misses go to device",
    )
