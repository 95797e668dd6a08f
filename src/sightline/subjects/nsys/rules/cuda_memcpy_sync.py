"""Copies hold the host until they are done, as nsys analyze lists them.

Symptom
    cudaMemcpy between kernels.

Why it hurts
    The host waits for the copy and prepares nothing meanwhile.

Evidence
    Copies whose call is of the synchronous family, from or to host memory (`sightline stats
    cuda_memcpy_sync`).

Threshold
    None: the vendor lists every one. A warning from 5 % of the window (TraceLens agent, 2026-08),
    else a note.

Fix
    The asynchronous call on a stream, with pinned memory: cudaMemcpyAsync, non_blocking=True.

False positives
    Copies at start-up or at the end, where nothing else waits.

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (cuda_memcpy_sync). Asked with
    --vendor only: the rules of sightline say what it costs the device: sync-in-step and
    d2h-in-step.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("cuda-memcpy-sync", "Synchronous memcpy", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "cuda_memcpy_sync",
        "Synchronous copies",
        fix=choose_fix(
            run,
            "cudaMemcpyAsync with pinned memory",
            pytorch="non_blocking=True, with pinned memory",
        ),
    )
