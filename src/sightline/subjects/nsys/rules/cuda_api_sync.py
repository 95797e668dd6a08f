"""Calls hold the host until the GPU is done, as nsys analyze lists them.

Symptom
    cudaDeviceSynchronize and cudaStreamSynchronize inside the loop.

Why it hurts
    While the host waits it launches nothing, and the device runs dry behind the wait.

Evidence
    Calls that synchronize with a device or stream (`sightline stats cuda_api_sync`). The cost is
    time of the host: what the device loses by it is in sync-in-step.

Threshold
    None: the vendor lists every one. A warning from 5 % of the window (TraceLens agent, 2026-08),
    else a note.

Fix
    Wait only for what is needed, as late as possible: events, cudaStreamWaitEvent instead of a
    wait of the host.

False positives
    A wait at the end of each batch that nothing follows.

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (cuda_api_sync). Asked with
    --vendor only: the rules of sightline say what it costs the device: sync-in-step.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("cuda-api-sync", "Synchronization calls block the host", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "cuda_api_sync",
        "Calls that wait for the GPU",
        fix="wait for events, on the device where possible (cudaStreamWaitEvent)",
    )
