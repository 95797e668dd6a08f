"""Copies from host to device run while neither compute nor communication does.

Symptom
    The device copies from the host, and nothing runs beside it.

Why it hurts
    A copy over PCIe moves some tens of GB/s, device memory thousands: data that is sent again and
    again costs a hundred times what it costs to keep it.

Evidence
    Time in which only such copies run (`sightline stats breakdown`, `memcpy`); whether they share
    a stream with kernels, in which case they can never overlap them. Copies from pageable memory
    and small ones have rules of their own. The gain is a replay without these copies,
    but for those that end before their device computes at all: nothing could hide them.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: copies flagged above 5 % of the time).

Fix
    Keep the data on the device. Else overlap: pinned memory, a side stream, the next batch while
    this one is worked on.

False positives
    Loading weights once at start: choose the window with --window.

References
    NVIDIA, CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.copies.rules._shared import find_exposed_copies
from sightline.timeline import causes

RULE = Rule("h2d-bound", "Exposed host-to-device copies", causes=(causes.UPLOAD,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_copies(
        run,
        RULE,
        "Host-to-device copies are exposed for",
        sent_ahead=True,
        cause="the GPU needs the data before it can continue, and no kernel overlaps the copies",
        fix_pinned="keep the data on the GPU; else prefetch the next part on a second stream, "
        "while this one is processed",
        fix=choose_fix(
            run,
            "keep the data on the GPU; else prefetch the next part, from pinned memory on a "
            "second stream",
            training="keep the data (weights, caches) on the GPU; else prefetch the next batch "
            "from pinned memory on a side stream: pin_memory=True, .to(device, non_blocking=True)",
            pytorch="keep the data (weights, caches) on the GPU; else prefetch the next inputs "
            "from pinned memory on a side stream: .pin_memory(), .to(device, non_blocking=True)",
            openacc="keep arrays on the device: acc data, or acc enter data, around the loop",
            kokkos="keep Views on the device; else prefetch the next part by deep_copy from a "
            "pinned View (SharedHostPinnedSpace) on another execution space instance",
            julia="keep arrays on the GPU (CuArray); else prefetch the next part from pinned "
            "memory (CUDA.pin) in a task of its own",
            native="keep the data on the GPU; else prefetch the next part from pinned memory "
            "(cudaHostAlloc) on a second stream: cudaMemcpyAsync",
            openmp="keep arrays on the device: target data, or target enter data, around the loop",
            jax="keep the data on the GPU; else jax.device_put the next batch while this one runs",
            vllm="keep the weights on the GPU: no --cpu-offload-gb, or a smaller value",
            sglang="keep the weights on the GPU: no --cpu-offload-gb, or a smaller value",
        ),
        sources=("CUDA C++ Best Practices Guide: Data Transfer Between Host and Device",),
    )
