"""One block makes up much of the peak.

Symptom
    The picture of memory over time has one spike; the program fails there, and has room elsewhere.

Why it hurts
    The whole run needs a device that is as large as its highest moment.

Evidence
    The largest block at the peak, and the peak without it: replay of all memory events without
    the blocks of this size and call stack, since each step has one. It is no parameter, gradient or
    optimizer state, which are there all the time.

Threshold
    A peak that is 15 % lower without it (ours).

    Programs without tensors, whose largest buffer is what they compute on, are asked only where
    memory is short.

Fix
    Compute it in pieces: logits and loss over chunks of the sequence, attention without its matrix
    (scaled_dot_product_attention), in-place or fused operations, a lower precision, freeing it
    (del) before the next large one.

False positives
    A tensor that a library splits anyway on a smaller device.

References
    Dao et al., "FlashAttention" (2022); Hsu et al., "Liger Kernel" (2024), fused linear cross
    entropy.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.allocations import (
    find_peaks_without,
    follow_allocations,
    select_live,
    select_memory,
)
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    grade_by_room,
    locate_device,
    name_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import add_places, classify_blocks
from sightline.timeline.world import read_world

RULE = Rule("peak-set-by-one-tensor", "One tensor sets the peak")
LEAST_PCT = 15.0
_ALWAYS_THERE = ("parameter", "gradient", "optimizer state")
_HAVE_TENSORS = ("pytorch", "jax", "vllm", "sglang", "tensorrt")
_TENSOR = (
    "compute it in chunks, or with an operation that never holds it whole (fused linear cross "
    "entropy, scaled_dot_product_attention); free it before the next"
)
_BLOCK = (
    "compute it in pieces, in a narrower type or in place, or free it before the next large one "
    "is allocated"
)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    has_tensors = read_world(run).framework in _HAVE_TENSORS
    for peak in find_device_peaks(run).iter_rows(named=True):
        whole = peak["allocated_bytes"]
        if peak["has_room"] and not has_tensors:
            continue
        if 100 * (peak["largest_bytes"] or 0) < LEAST_PCT * whole:
            continue
        followed = follow_allocations(run)
        mine = select_memory(followed, classify_blocks(run), peak)
        largest = (
            select_live(mine, peak["event"])
            .filter(~pl.col("kind").is_in(_ALWAYS_THERE))
            .sort("bytes", "allocated", descending=[True, False])
            .head(1)
        )
        if largest.is_empty() or largest.item(0, "allocated") is None:
            continue
        same = mine.filter(
            pl.col(name).eq_missing(largest.item(0, name)) for name in ("bytes", "stack_id")
        ).with_columns(group=0)
        events = select_memory(followed, followed.events, peak)
        [after] = find_peaks_without(events, same, 1)
        gain = whole - after
        if 100 * gain < LEAST_PCT * whole:
            continue
        block = add_places(run, largest).row(0, named=True)
        yield build_finding(
            RULE,
            f"One block of {format_bytes(block['bytes'])}, allocated by "
            f"{block['place'] or 'a stack that was not recorded'}, is "
            f"{write_share(block['bytes'], whole)} of the peak of {name_device(peak)}.",
            Evidence(
                [
                    f"the peak is {format_bytes(whole)}, without this "
                    f"{'tensor' if has_tensors else 'block'} {format_bytes(after)}",
                    f"it holds: {block['kind']} ({block['confidence']} confidence)",
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix=_TENSOR if has_tensors else _BLOCK,
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="a single large block is alive at the highest moment",
                sources=("Liger Kernel (2024): fused linear cross entropy",) if has_tensors else (),
            ),
            title=RULE.title if has_tensors else "One block sets the peak",
            severity=grade_by_room(peak),
            price=price_part(block["bytes"], gain, whole, "bytes"),
            method="replay of all memory events without this tensor, in every step",
        )
