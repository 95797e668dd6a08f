"""Copies to the device come from pageable memory.

Symptom
    Slow copies from host to device whose calls last as long as the copies.

Why it hurts
    The driver must stage pageable memory through a pinned buffer: the link is not filled, the
    call blocks, and the host launches nothing meanwhile.

Evidence
    Copies whose source is recorded as pageable, of more than 64 KiB: the time in which only they
    run, and the gaps behind them where the host waited. The gain is a replay without them: what
    pinned memory and a side stream can hide at most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    pin_memory=True in the DataLoader, tensor.pin_memory(), cudaHostAlloc; then non_blocking=True.

False positives
    Loading weights once at start: choose the window with --window.

References
    CUDA Runtime API, "API synchronization behavior"; CUDA C++ Best Practices Guide, "Pinned
    Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.copies.rules._shared import find_exposed_copies
from sightline.timeline import causes

RULE = Rule("pageable-copies", "Copies from pageable memory", causes=(causes.PAGEABLE,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_copies(
        run,
        RULE,
        "Copies from pageable memory are exposed for",
        cause="the driver stages pageable memory through a pinned buffer, and the call blocks the "
        "host",
        fix=choose_fix(
            run,
            "pin the host's memory, then prefetch on a second stream",
            training="pin the memory: DataLoader(pin_memory=True), tensor.pin_memory(); then "
            "prefetch with non_blocking=True on a side stream",
            pytorch="pin the memory: tensor.pin_memory(); then prefetch with non_blocking=True "
            "on a side stream",
            openacc="pin the memory (nvc -gpu=mem:separate:pinnedalloc), or keep arrays on the "
            "device around the loop (acc data)",
            kokkos="keep what is copied in pinned Views (SharedHostPinnedSpace), or on the device",
            julia="pin the memory (CUDA.pin), or keep arrays on the GPU (CuArray)",
            scripted="pin the memory (cuda.pinned_array, cupyx.empty_pinned), then copy on a "
            "second stream",
            native="pin the memory (cudaHostAlloc, cudaHostRegister), then copy with "
            "cudaMemcpyAsync on a second stream",
            openmp="pin the memory (omp_alloc with the pinned trait), or map arrays once around "
            "the loop",
        ),
        sources=("CUDA Runtime API: API synchronization behavior",),
    )
