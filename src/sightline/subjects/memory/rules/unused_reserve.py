"""The allocator holds whole segments that nothing uses.

Symptom
    nvidia-smi shows far more memory in use than the program allocates; another process on the
    device runs out of it.

Why it hurts
    A caching allocator keeps what was freed for the next request. What a phase that is over needed
    (loading, warm-up, an evaluation) stays taken from other processes, NCCL and libraries.

Evidence
    Segments without a block in use (`sightline stats fragmentation`, unused_bytes).
    torch.cuda.empty_cache() gives back exactly these. Where the history of allocations was
    recorded, what its peak needed of them is not counted: the next step takes that again.

Threshold
    Over 20 % of what is reserved (ours: below, the next step mostly takes it again).

Fix
    torch.cuda.empty_cache() once after the phase that needed it, never in each step;
    PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8 gives back by itself.

False positives
    A snapshot without a history, from between two steps, or with one that began late: the next
    step, or the phase before it, uses the same segments again. So this is a remark there, without
    a gain.

References
    PyTorch, "CUDA semantics", "Memory management" and "Optimizing memory usage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import EARLIER

RULE = Rule("unused-reserve", "Reserved memory that nothing uses")
LEAST_PCT = 20.0
_GIVE_BACK = (
    "torch.cuda.empty_cache() after the phase that needed it, or "
    "PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8"
)
_EARLIER = (
    "the history begins after a phase that took more: whether that phase recurs, and takes "
    "these segments, is not known"
)
_RECORD = (
    "record the history first (torch.cuda.memory._record_memory_history() as the program begins), "
    "which says what takes it"
)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    if not run.rows("memory_segments"):
        return
    for device in run.ask("fragmentation").drop_nulls("device_id").iter_rows(named=True):
        reserved = device["reserved_bytes"]
        peak = _find_peak(run, device)
        lost = device["unused_bytes"] if peak is None else _leave(device, peak)
        if not reserved or 100 * lost < LEAST_PCT * reserved:
            continue
        known = f", {format_bytes(peak)} at the peak" if peak is not None else ""
        began_late = peak is not None and _begins_late(run, device, peak)
        yield build_finding(
            RULE,
            f"{format_bytes(lost)} on {name_device(device)} are in segments that nothing uses"
            f"{', and more than the peak needed' if known else ''}: "
            f"{write_share(lost, reserved)} of what the allocator holds.",
            Evidence(
                [
                    f"{format_bytes(reserved)} reserved, "
                    f"{format_bytes(device['active_bytes'])} in use{known}",
                    *([] if known else _describe_segments(run, device)),
                    *([_EARLIER] if began_late else []),
                ],
                where=locate_device(device),
            ),
            Advice(
                fix=_GIVE_BACK if known and not began_late else f"{_RECORD}; {_GIVE_BACK}",
                verify="sightline stats fragmentation AFTER: unused_bytes",
                cause="the cache keeps what an earlier phase needed",
                sources=("PyTorch, CUDA semantics: Memory management",),
            ),
            price=price_part(lost, None if peak is None or began_late else lost, reserved, "bytes"),
            method="the segments without a block in use, which empty_cache() gives back",
            confidence="medium",
            severity="info",
        )


def _describe_segments(run: Run, device: dict[str, Any]) -> list[str]:
    """The largest unused segments: without a history only their sizes say what took them."""
    unused = select_device(run.table("memory_segments"), device).filter(pl.col("active_bytes") == 0)
    sizes = unused.group_by("bytes").len().sort("bytes", descending=True).head(3)
    each = ", ".join(f"{n} × {format_bytes(size)}" for size, n in sizes.rows())
    return [
        f"the largest of them: {each}",
        "no history was recorded: whether each step takes them again, and where, is not known",
    ]


def _find_peak(run: Run, device: dict[str, Any]) -> int | None:
    """The most that was allocated at one time, where the device's allocations were recorded."""
    if not run.rows("memory_events"):
        return None
    events = run.columns("memory_events", ["rank", "device_id", "action"])
    if not (select_device(events, device).get_column("action") == "alloc").any():
        return None
    peaks = select_device(find_device_peaks(run), device)
    return None if peaks.is_empty() else int(peaks.item(0, "allocated_bytes"))


def _begins_late(run: Run, device: dict[str, Any], peak: int) -> bool:
    """Whether most of the peak was allocated before the history begins."""
    blocks = select_device(run.ask("peak_blocks"), device)
    return 2 * sum_column(blocks.filter(pl.col("kind") == EARLIER), "bytes") > peak


def _leave(device: dict[str, Any], peak: int) -> int:
    """What of the unused segments the peak did not need."""
    unused, reserved = int(device["unused_bytes"]), int(device["reserved_bytes"])
    return max(0, min(unused, reserved - peak))
