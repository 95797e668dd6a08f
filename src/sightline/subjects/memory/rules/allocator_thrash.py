"""The allocator returns memory to the driver in steps, and allocates it anew.

Symptom
    cudaMalloc and cudaFree in every step, and a step time that varies; num_alloc_retries in
    torch.cuda.memory_stats() grows.

Why it hurts
    cudaFree waits for the device, and a retry gives back the whole cache first: the step stops,
    and takes the same memory again.

Evidence
    Segments that steps after the second gave back and took (`sightline stats allocator_churn`).
    The cost is what an average one of these steps gives back; what that takes in time is in a
    timeline (rule allocator-churn).

Threshold
    Half of the steps after the second, and two of them at least (ours: once is a new shape).

Fix
    No torch.cuda.empty_cache() in the step; room for the cache (a smaller batch, no memory limit
    just above the peak); steady shapes; PYTORCH_ALLOC_CONF=expandable_segments:True.

False positives
    Expandable segments map and unmap pages as they grow, which is cheaper.

References
    PyTorch, "CUDA semantics", "Memory management"; torch.cuda.memory_stats, num_alloc_retries.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    EXPANDABLE,
    find_device_peaks,
    locate_device,
    name_device,
    select_device,
)

RULE = Rule("allocator-thrash", "The allocator returns memory in every step")
_WARM_UP, LEAST_STEPS = 2, 2


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    for device in find_device_peaks(run).iter_rows(named=True):
        steps = select_device(run.ask("allocator_churn"), device).filter(
            pl.col("step") >= _WARM_UP, pl.col("allocations") > 0
        )
        busy = steps.filter(pl.col("taken") > 0, pl.col("given_back") > 0)
        if busy.height < LEAST_STEPS or 2 * busy.height < steps.height:
            continue
        moved = sum_column(busy, "given_back_bytes") // busy.height
        yield build_finding(
            RULE,
            f"{format_count(busy.height)} of {format_several(steps.height, 'step')} on "
            f"{name_device(device)} return memory to the driver and allocate it again, "
            f"{format_bytes(moved)} each.",
            Evidence(
                [
                    f"{format_several(sum_column(busy, 'given_back'), 'segment')} given back, "
                    f"{format_count(sum_column(busy, 'taken'))} taken, after the first two steps",
                    f"{format_several(sum_column(steps, 'failures'), 'allocation')} failed in them",
                ],
                where=locate_device(device),
            ),
            Advice(
                fix="no torch.cuda.empty_cache() in the step, more room for the cache, steady "
                f"shapes; {EXPANDABLE}",
                verify="sightline stats allocator_churn AFTER: given_back of 0",
                cause="the cache is emptied, or does not fit next to what is allocated",
                sources=("PyTorch, CUDA semantics: Memory management",),
            ),
            price=price_part(moved, None, device["most_reserved_bytes"] or moved, "bytes"),
            method="nothing is freed: the time that it takes is in a timeline",
            severity="warning",
        )
