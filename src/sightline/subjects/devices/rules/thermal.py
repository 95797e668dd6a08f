"""Kernels run at a lower clock because the device is too hot.

Symptom
    The clock falls some minutes into a run, or on the devices with the worst air, and "Thermal
    Slowdown" is among the reasons.

Why it hurts
    Heat lowers the clock below what power would allow, in hardware by half or more; one hot device
    holds up all ranks.

Evidence
    As clock-throttled, for kernels beside which NVML's clock event reasons had the bit of the
    software or the hardware thermal slowdown (20, 40, hexadecimal), and none of power. The gain is
    a replay at the device's best clock.

Threshold
    A clock under 95 % of the reference (ours), at a cost of over 5 % of the window (TraceLens
    agent, 2026-08: its threshold for copies).

Fix
    nvidia-smi -q -d TEMPERATURE shows how far from the slowdown it is; then cooling: fans, dust,
    inlet air, neighbors in the chassis. Until then a lower power limit costs less than the
    slowdown does.

False positives
    None known: the device itself reports the bit.

References
    NVIDIA NVML API Reference, nvmlClocksEventReasonSwThermalSlowdown, HwThermalSlowdown;
    NVIDIA DCGM, field 112 (clock event reasons).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.devices.rules._shared import find_low_clock
from sightline.timeline import causes

RULE = Rule("thermal", "Thermal throttling", causes=(causes.HEAT,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices; clock-throttled abstains for it."""
    yield from find_low_clock(
        run,
        RULE,
        "heat lowers the SM clock",
        cause="the GPU is at its temperature limit",
        fix="check the cooling (nvidia-smi -q -d TEMPERATURE); until then lower the power limit",
        sources=("NVML API Reference: nvmlClocksEventReasonSwThermalSlowdown",),
    )
