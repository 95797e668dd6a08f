"""A kernel launches fewer blocks than the device can hold.

Symptom
    The grid has fewer blocks than the device has SMs: some SMs get nothing to do. Or each SM has
    fewer blocks than it has room for, and waits.

Why it hurts
    SMs without a block idle for the whole kernel. With few warps on an SM there is nothing to run
    while some of them wait.

Evidence
    Blocks and SM count (`sightline stats launch_shape`).

Threshold
    Blocks < SMs (Nsight Compute 2024.1, rule LaunchConfiguration). Estimate: (SMs − blocks) /
    SMs, global. Or less than one wave, where neither throughput reaches 60 % (rule SOLBottleneck):
    1 − waves, local, weighed with what is left to the speed of light.

Fix
    Split the work into more, smaller blocks; process several inputs in one launch; run
    independent kernels in other streams beside it.

False positives
    Kernels that run beside others, and those of a few microseconds that are launch-bound anyway.

References
    Nsight Compute, Kernel Profiling Guide, "Launch Statistics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_count, format_several
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import count_blocks, count_threads

RULE = Rule(
    "ncu-small-grid",
    "Grid too small for the GPU",
    explains=(*WAITS, "ncu-imbalance", "ncu-occupancy-achieved", "ncu-occupancy-limit"),
)
_WAVES = "launch__waves_per_multiprocessor"
_METRICS = ("launch__grid_size", "gpu__time_duration.sum", _WAVES)


def _hit(case: Case) -> Hit | None:
    blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
    if not blocks or not sms:
        return None
    threads = count_threads(case.facts)
    of = f" of {format_several(threads, 'thread')}" if threads else ""
    evidence = f"{format_several(blocks, 'block')}{of} on {format_count(sms)} SMs"
    if blocks < sms:
        evidence += f": {format_count(sms - blocks)} of the SMs stay idle"
        return Hit(case, 100 * (sms - blocks) / sms, None, evidence, relieves_limit=True)
    waves = case.get(_WAVES)
    if not waves or waves >= 1 or not case.waits:
        return None
    evidence += (
        f", {waves:.2f} waves: {blocks / sms:.1f} blocks an SM in the mean, and "
        f"{blocks / sms / waves:.0f} would fit"
    )
    return Hit(case, 100 * (1 - waves), case.headroom, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=_METRICS,
    record="--section LaunchStats",
    fix="use more, smaller blocks, or give the launch more work; run independent kernels "
    "concurrently",
    verify="sightline stats launch_shape AFTER: idle_sms_pct is 0",
    needs_sm_count=True,
)
