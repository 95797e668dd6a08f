"""Much of what the allocator holds is free, but in pieces that blocks in use keep apart.

Symptom
    Out of memory while gigabytes are reserved and not allocated; the reserved memory grows and the
    allocated does not.

Why it hurts
    A free piece serves only requests that fit it, on its stream and in its pool, and its segment
    cannot be given back while anything in it is in use.

Evidence
    Free bytes in segments that are partly used (`sightline stats fragmentation`), and the block
    that keeps each of them (`sightline stats pinned_segments`); where events were recorded, not
    more than what was reserved beyond the most that was ever active: what the peak needed is not
    lost. At most all of it can be had back.

Threshold
    Over 10 % of what is reserved (ours: split remainders of a healthy run are below).

Fix
    PYTORCH_ALLOC_CONF=expandable_segments:True; allocate what lives long before what is temporary;
    fewer different sizes.

False positives
    Without events, a snapshot from between two steps, when everything temporary is free and the
    next step uses it again.

References
    PyTorch, "CUDA semantics", "Optimizing memory usage" (expandable_segments, max_split_size_mb).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    EXPANDABLE,
    locate_device,
    name_device,
    select_device,
    write_share,
)

RULE = Rule("memory-fragmentation", "Fragmented memory")
LEAST_PCT = 10.0
# The allocator takes memory in segments of 2 and 20 MiB and larger ones (c10/cuda,
# CUDACachingAllocator: kSmallBuffer, kLargeBuffer): pieces of so few of them are how it works, and
# no GPU lacks them (ours: five of the larger).
LEAST_BYTES = 5 * (20 << 20)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    if not run.rows("memory_segments"):
        return
    for device in run.ask("fragmentation").drop_nulls("device_id").iter_rows(named=True):
        reserved = device["reserved_bytes"]
        lost = min(device["pinned_bytes"], _find_spare(run, device))
        if not reserved or lost < LEAST_BYTES or 100 * lost < LEAST_PCT * reserved:
            continue
        pins = select_device(run.ask("pinned_segments"), device)
        yield build_finding(
            RULE,
            f"{format_bytes(lost)} of the memory that the allocator holds on "
            f"{name_device(device)} ({write_share(lost, reserved)}) are free, but in pieces "
            "between blocks in use.",
            Evidence(
                [
                    f"{format_bytes(device['free_bytes'])} are free in "
                    f"{format_several(device['pieces'], 'piece')}, the largest "
                    f"{format_bytes(device['largest_free_bytes'])}",
                    f"{format_count(device['pinned_segments'])} of "
                    f"{format_several(device['segments'], 'segment')} partly used",
                    *(
                        f"{format_bytes(row['free_bytes'])} ({format_pct(row['free_pct'])} of a "
                        f"segment) kept by {format_bytes(row['pin_bytes'])} of "
                        f"{row['place'] or 'a stack that was not recorded'}"
                        for row in pins.head(2).iter_rows(named=True)
                    ),
                ],
                where=locate_device(device),
            ),
            Advice(
                fix=f"{EXPANDABLE}; allocate what lives long first",
                verify="sightline stats fragmentation AFTER: pinned_bytes",
                cause="blocks that live longer lie between blocks that were freed",
                sources=("PyTorch, CUDA semantics: expandable_segments",),
            ),
            price=price_part(lost, lost, reserved, "bytes"),
            method="what is free in partly used segments, and no peak has needed",
            confidence="medium",
        )


def _find_spare(run: Run, device: dict[str, Any]) -> int:
    """What was reserved at most beyond the most that was active; all of it without events."""
    whole = int(device["reserved_bytes"])
    if not run.rows("memory_events"):
        return whole
    here = select_device(run.ask("memory_peak"), device)
    reserved = find_largest(here, "most_reserved_bytes")
    return reserved - find_largest(here, "most_active_bytes") if reserved else whole
