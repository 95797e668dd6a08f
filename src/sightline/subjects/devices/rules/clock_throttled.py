"""Kernels run at a lower clock than the device reaches elsewhere in the recording.

Symptom
    The same kernel takes longer later in the run, or on one device than on another.

Why it hurts
    What is limited by arithmetic or latency takes as much longer as the clock is lower.

Evidence
    Samples of the SM clock while kernels ran, against the device's highest clock, or the highest
    sample where that is not named (`sightline stats slow_clocks`); no power or thermal reason was
    sampled beside it (then those rules speak). The gain is a replay in which these kernels are as
    much shorter as the clock would be higher: an upper bound, since kernels limited by memory gain
    less. Without clocks over time the rule abstains, for power-capped and thermal too.

Threshold
    A clock under 95 % of the reference (ours; boost clocks move in steps of about 1 %), at a cost
    of over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    nvidia-smi -q -d PERFORMANCE says the reason while the program runs; nvidia-smi -q -d CLOCK
    shows set limits, nvidia-smi -rgc and -rac lift locked and application clocks.

False positives
    Clocks that were locked on purpose, to measure; a clock that has not risen yet after idling.

References
    NVIDIA NVML API Reference, nvmlClocksEventReasons; Nsight Systems User Guide, "GPU Metrics".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import abstain
from sightline.subjects.devices.rules._shared import find_low_clock, list_slow_kernels
from sightline.timeline import causes

RULE = Rule("clock-throttled", "Clock throttled", causes=(causes.OTHER_CLOCK,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    if list_slow_kernels(run) is None:
        yield abstain(
            RULE,
            "clocks were not recorded, so throttling could not be checked; record with sightline "
            "run",
        )
        return
    yield from find_low_clock(
        run,
        RULE,
        "the SM clock is low for a reason other than power or heat, or an unrecorded one",
        cause="the clock is lower than the device's best",
        fix="nvidia-smi -q -d PERFORMANCE while it runs; nvidia-smi -rgc lifts locked clocks",
        sources=("NVML API Reference: nvmlClocksEventReasons",),
    )
