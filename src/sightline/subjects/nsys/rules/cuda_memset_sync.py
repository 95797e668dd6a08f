"""Fills hold the host until they are done, as nsys analyze lists them.

Symptom
    cudaMemset between kernels.

Why it hurts
    The host waits for the memset and prepares nothing meanwhile.

Evidence
    Fills whose call is of the synchronous family (`sightline stats cuda_memset_sync`).

Threshold
    None: the vendor lists every one. A warning from 5 % of the window (TraceLens agent, 2026-08),
    else a note.

Fix
    cudaMemsetAsync on the stream that uses the memory.

False positives
    Fills of device memory by cudaMemset return before they are done, except on pinned host or
    unified memory (CUDA Runtime API, "API synchronization behavior").

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (cuda_memset_sync). Asked with
    --vendor only: the rules of sightline say what it costs the device: redundant-memset.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("cuda-memset-sync", "Synchronous memsets", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "cuda_memset_sync",
        "Synchronous memsets",
        fix="cudaMemsetAsync on the stream that uses the memory",
    )
