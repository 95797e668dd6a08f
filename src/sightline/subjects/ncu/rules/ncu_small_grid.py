"""A kernel launches fewer blocks than the device can hold.

Symptom
    The grid has fewer blocks than the device has SMs: some SMs get nothing to do.

Why it hurts
    SMs without a block idle for the whole kernel.

Evidence
    Blocks and SM count (`sightline stats launch_shape`).

Threshold
    Blocks < SMs (Nsight Compute 2024.1, rule LaunchConfiguration). Estimate: (SMs − blocks) /
    SMs, global. Or less than one wave (rule SOLBottleneck): 1 − waves, local, weighed with what
    is left to the speed of light.

Fix
    Split the work into more, smaller blocks; process several inputs in one launch; run
    independent kernels in other streams beside it.

False positives
    Kernels that run beside others, and those of a few microseconds that are launch-bound anyway.

References
    Nsight Compute, Kernel Profiling Guide, "Launch Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.launch import count_blocks

RULE = Rule("ncu-small-grid", "Grid too small for the GPU")
_WAVES = "launch__waves_per_multiprocessor"
_METRICS = ("launch__grid_size", "gpu__time_duration.sum", _WAVES)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, _METRICS, "--section LaunchStats")
    hits = []
    for case in every:
        blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
        if not blocks or not sms:
            continue
        evidence = f"{format_count(blocks)} blocks on {format_count(sms)} SMs"
        waves = case.get(_WAVES)
        if blocks < sms:
            hits.append(Hit(case, 100 * (sms - blocks) / sms, None, evidence))
        elif waves is not None and waves < 1:
            evidence += f", {waves:.2f} waves"
            hits.append(Hit(case, 100 * (1 - waves), case.headroom, evidence))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}: {format_count(round(h.local_pct))} % of the SMs stay idle.",
        "use more, smaller blocks, or give the launch more work; run independent kernels "
        "concurrently",
        "sightline stats launch_shape AFTER: idle_sms_pct is 0",
    )
