"""The L2 answers few requests, and device memory is what the kernel waits for.

Symptom
    Under half of the L2's requests are hits, while the fabric behind it carries 60 % of what the
    device memory can do, or more.

Why it hurts
    What misses the L2 goes to the Infinity Cache or to memory, which have a fraction of its
    bandwidth and several times its latency.

Evidence
    L2 Cache Hit Rate, L2-Fabric bandwidth and latency (`sightline stats amd_speed_of_light`).

Threshold
    Hit rate under 50 % (ours: then most traffic is memory's); memory at 60 % or more of its peak
    (Nsight Compute 2024.1, rule SOLBottleneck: a unit that is in use). No gain is claimed: whether
    data is used again is not in the counters.

Fix
    Where data is used again: smaller tiles that fit the L2, work-groups that share data launched
    side by side (on MI300, on the same die: work-groups go round the dies), one pass over the data
    instead of several.

False positives
    Kernels that read everything once, as copies and element-wise ones do: no cache helps those.

References
    ROCm Compute Profiler, "L2 cache (TCC)"; AMD CDNA 3 white paper, "Memory".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("amd-l2-misses", "Most requests miss the L2")
HIT_PCT = 50.0


def _hit(case: Case, kernel: AmdKernel) -> Hit | None:
    rate, fabric = kernel.value("L2 Cache Hit Rate"), kernel.fabric_pct
    if rate is None or fabric is None or rate >= HIT_PCT or fabric < LATENCY_PCT:
        return None
    evidence = f"{format_pct(rate)} of requests hit, memory runs at {format_pct(fabric)}"
    return Hit(case, 0.0, 0.0, evidence)


check = judge_amd_kernels(
    RULE,
    _hit,
    figures=("L2 Cache Hit Rate",),
    summary="In the L2 {} of its peak.",
    fix="where data is reused: smaller tiles, and neighboring work-groups that share it",
    verify="sightline stats amd_speed_of_light AFTER: a higher L2 Cache Hit Rate",
)
