"""Results are copied to the host inside the step, while nothing else runs.

Symptom
    Copies from device to host of more than 64 KiB, with no kernel beside them.

Why it hurts
    The copy takes the link, and the host mostly waits for it: after it nothing is queued.

Evidence
    Time in which only such copies run, and the gaps behind them where the host waited. The gain
    is a replay without these copies and without the waits for them. Copies whose next operation is
    a copy back of nearly as much (5 %, ours: a border), between two kernels: a round trip.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08). Copies up to 64 KiB are values that are
    read back: sync-in-step speaks for those (CUDA Runtime API: 64 KB is where staging changes).

Fix
    Read back less and later; pinned memory and non_blocking=True; reduce on the device first. What
    the next kernel reads stays on the device.

False positives
    Checkpoints inside the window; offloading on purpose, where it is hidden it is not counted.

References
    NVIDIA, CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device"; CUDA Runtime
    API, "API synchronization behavior".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.copies.round_trips import find_round_trips
from sightline.subjects.copies.rules._shared import find_exposed_copies
from sightline.timeline import causes

RULE = Rule("d2h-in-step", "Device-to-host copies inside the step", causes=(causes.DOWNLOAD,))


_KEEP = (
    "keep it on the GPU between the two kernels, and let a kernel do what the host does there (a "
    "border, a conversion, a transpose); for the rest, "
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    for found in _find(run):
        trips = find_round_trips(run)
        if trips is None:
            yield found
            continue
        line = (
            f"{format_several(trips.number, 'copy', 'copies')} of {format_bytes(trips.out_bytes)} "
            f"{'comes' if trips.number == 1 else 'come'} back as "
            f"{format_bytes(trips.back_bytes)} before the next kernel: {format_ns(trips.ns)} for "
            "the round trip"
        )
        yield replace(found, evidence=(line, *found.evidence), fix=f"{_KEEP}{found.fix}")


def _find(run: Run) -> Iterator[Finding]:
    yield from find_exposed_copies(
        run,
        RULE,
        "Device-to-host copies are exposed for",
        cause="the step copies results to the host, and the GPU waits for the copies",
        fix_pinned="copy less to the host, and later, on a second stream while the next part is "
        "computed; reduce on the GPU first",
        fix=choose_fix(
            run,
            "copy less to the host, and later, into pinned memory on a second stream; reduce on "
            "the GPU first",
            pytorch="copy less to the host, and later: copy to pinned memory with "
            "non_blocking=True on a side stream, once per several steps; reduce on the GPU first",
            openacc="keep arrays on the device (acc data around the loop), and update only what "
            "the host reads (acc update self)",
            native="copy less to the host, and later: cudaMemcpyAsync to pinned memory on a second "
            "stream, once per several steps; reduce on the GPU first",
            openmp="keep arrays on the device (target data around the loop), and update only what "
            "the host reads (target update from)",
            jax="copy less to the host, and later: copy_to_host_async() where the result is "
            "known, and reduce on the GPU first",
        ),
        sources=("CUDA C++ Best Practices Guide: Data Transfer Between Host and Device",),
    )
