"""Kernels run at a lower clock because the device is at its power limit.

Symptom
    Power close to the limit, a clock below the highest, and "SW Power Cap" among the reasons.

Why it hurts
    The device lowers its clock until it draws no more than it may; everything limited by
    arithmetic takes as much longer.

Evidence
    As clock-throttled, for kernels beside which NVML's clock event reasons had the bit of the
    software power cap (4) or of an external power brake (80, hexadecimal). The gain is a replay at
    the device's best clock.

Threshold
    A clock under 95 % of the reference (ours), at a cost of over 5 % of the window (TraceLens
    agent, 2026-08: its threshold for copies).

Fix
    Raise the limit where the machine allows it (nvidia-smi -pl WATTS, nvidia-smi -q -d POWER shows
    the range); else draw less for the same work: lower precision, fewer wasted reads, sparsity of
    operands. A brake is the machine's power supply: tell its operator.

False positives
    A limit that was set on purpose, for energy or for cooling. Dense tensor-core kernels reach the
    limit of most devices: then this is the device's real peak, and there is nothing to gain.

References
    NVIDIA NVML API Reference, nvmlClocksEventReasonSwPowerCap, HwPowerBrakeSlowdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.devices.rules._shared import find_low_clock
from sightline.timeline import causes

RULE = Rule("power-capped", "Clock lowered by the power limit", causes=(causes.POWER,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices; clock-throttled abstains for it."""
    yield from find_low_clock(
        run,
        RULE,
        "the power limit lowers the SM clock",
        cause="the GPU draws as much power as its limit allows",
        fix="raise the limit (nvidia-smi -pl) where the machine allows it, or draw less: lower "
        "precision, fewer wasted reads",
        sources=("NVML API Reference: nvmlClocksEventReasonSwPowerCap",),
    )
