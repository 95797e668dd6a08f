"""Warps are there, pipes wait, the memory is busy: memory-bound, by a GPU's counters alone.

Symptom
    High occupancy, low activity of every pipe, and the memory's bus busy. Usual for decoding of
    language models in small batches, elementwise kernels, and anything that reads much and
    computes little.

Why it hurts
    More of the compute units would not help: each operation waits for its bytes.

Evidence
    Means of the device's counters over the time in which it was busy (`sightline stats
    device_use`). The counters do not show how many of the bytes were needed, so no gain is told.

Threshold
    Busy as in idle-tensor-cores. DRAM active at 60 % and more (Nsight Compute's speed-of-light
    rule: below 60 % of either peak a kernel is bound by latency), or, where that was not sampled,
    nvidia-smi's memory utilization at 80 %. The busiest pipe under 50 %, and under the memory.

Fix
    Fewer bytes for the same work: fuse elementwise kernels, 16-bit or 8-bit types, larger batches
    where weights are read for each of them.

False positives
    Copies through the GPU's memory, as of a benchmark of bandwidth, which are to be bound by it.

References
    NVIDIA DCGM User Guide, "Profiling Metrics": Memory Activity, of which 0.8 is about the most
    that is reached; Nsight Compute, Profiling Guide, "Speed Of Light".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.devices.rules._counters import list_busy_devices, write_use
from sightline.timeline.device_use import DRAM, TRANSFERS
from sightline.timeline.use_thresholds import INEFFECTIVE_PCT, PIPES, find_busiest_pipe

RULE = Rule("memory-bound-use", "Bound by the GPU's memory")
MEMORY_PCT, TRANSFERS_PCT = 60.0, 80.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, over all devices whose memory is what is busy."""
    found = []
    for row in list_busy_devices(run):
        pipe, share = find_busiest_pipe({name: row[name] for name in PIPES})
        memory, least = row[DRAM], MEMORY_PCT
        if memory is None:
            memory, least = row[TRANSFERS], TRANSFERS_PCT
        is_bound = memory is not None and memory >= least
        if is_bound and share is not None and share < min(INEFFECTIVE_PCT, memory):
            found.append((row, memory, pipe, share))
    if not found:
        return
    first, memory, pipe, share = found[0]
    what = "DRAM" if first[DRAM] is not None else "the memory, as nvidia-smi shows it,"
    yield build_finding(
        RULE,
        f"{format_several(len(found), 'GPU')} busy with {what} at {memory:.0f} %, and the busiest "
        f"pipe, the {pipe}, at {share:.0f} %: the work waits for memory.",
        Evidence(
            [
                *(write_use(row) for row, *_ in found[:5]),
                "counters do not show how many of the bytes were needed",
            ],
            where={
                "ranks": sorted({row["rank"] for row, *_ in found}),
                "devices": sorted({row["device_id"] for row, *_ in found}),
            },
        ),
        Advice(
            fix="fewer bytes for the same work: fused elementwise kernels, 16-bit or 8-bit types, "
            "larger batches; to see which kernels they are, record it:  sightline run -- COMMAND",
            verify="sightline stats device_use AFTER: the same work in less time",
            cause="operations wait for their bytes while the compute units are free",
            sources=("NVIDIA DCGM User Guide: Memory Activity", "Nsight Compute: Speed Of Light"),
        ),
        severity="warning",
        confidence="medium" if first[DRAM] is not None else "low",
        states_limit=True,
    )
