"""Why clocks are as they are, as nvidia-smi spells it: names of reasons to NVML's bits."""

from __future__ import annotations

import re
from collections.abc import Iterable

# nvml.h, nvmlClocksEventReasons; elements of -q -x and lines of -q call some otherwise.
_BITS = {
    "gpu_idle": 0x1, "idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4,
    "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80, "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}  # fmt: skip


def is_reason(name: str) -> bool:
    """Whether it is a reason's name."""
    return re.sub(r"\W+", "_", name.lower()) in _BITS


def combine_reasons(told: Iterable[tuple[str, str | None]]) -> float | None:
    """The bits of the reasons that are Active; None where none is said to be, or not to be."""
    known = [
        (bit, text)
        for name, text in told
        if (bit := _BITS.get(re.sub(r"\W+", "_", name.lower()))) is not None
        and text in ("Active", "Not Active")
    ]
    return float(sum(bit for bit, text in known if text == "Active")) if known else None
