"""Asynchronous copies wait for pageable memory, as nsys analyze lists them.

Symptom
    cudaMemcpyAsync from or to memory that was not pinned.

Why it hurts
    The driver stages such a copy through a buffer of its own, and the call does what its name
    denies: it waits.

Evidence
    Calls of the asynchronous copy family with pageable memory on one side (`sightline stats
    cuda_memcpy_async`).

Threshold
    None: the vendor lists every one. A warning from 5 % of the window (TraceLens agent, 2026-08),
    else a note.

Fix
    torch: pin_memory=True and .pin_memory(); CUDA: cudaMallocHost or cudaHostRegister.

False positives
    Copies of up to 64 KiB, which return at once (CUDA Runtime API, "API synchronization
    behavior").

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (cuda_memcpy_async). Asked with
    --vendor only: the rules of sightline say what it costs the device: pageable-copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("cuda-memcpy-async", "Asynchronous memcpy with pageable memory", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "cuda_memcpy_async",
        "Asynchronous copies that pageable memory makes synchronous",
        fix=choose_fix(
            run,
            "pin the host memory: cudaMallocHost or cudaHostRegister",
            training="pin the host memory: pin_memory=True, tensor.pin_memory()",
            pytorch="pin the host memory: tensor.pin_memory()",
        ),
    )
