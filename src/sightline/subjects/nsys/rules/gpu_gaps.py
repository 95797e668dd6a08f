"""A process leaves its GPU idle for long, as nsys analyze lists it.

Symptom
    Stretches of over half a second without any work on the device.

Why it hurts
    The device is paid for and does nothing.

Evidence
    Times without kernel, copy or memset of a process on its device, longer than 500 ms (`sightline
    stats gpu_gaps`; the profiler's own time is not a gap).

Threshold
    Gaps of over 500 ms: the vendor's own default. A warning from 5 % of the window (TraceLens
    agent, 2026-08), else a note.

Fix
    See what the host did meanwhile: gpu-idle, host-late and dataloader-starved name it.

False positives
    Phases that need no GPU, such as reading a checkpoint.

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (gpu_gaps). Asked with --vendor
    only: the rules of sightline say what it costs the device: gpu-idle and the rules beside it,
    which look at every gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("gpu-gaps", "Long GPU gaps", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "gpu_gaps",
        "Gaps of over 500 ms",
        fix="sightline findings without --vendor says what the host did meanwhile",
    )
