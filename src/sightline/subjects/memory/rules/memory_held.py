"""What holds the memory, where a snapshot has no history that would say how it got there.

Symptom
    A snapshot that was written when memory ran out, or where somebody wanted to know what is in it.

Why it hurts
    It need not: it says whether the memory is full or in pieces, and of what.

Evidence
    The allocator's blocks in use by the line that allocated them, and what of the reserve is free,
    in pieces and in segments that nothing uses (`sightline stats fragmentation`).

Threshold
    Snapshots without recorded allocations; a remark. Where stacks tell of less than half, it says
    how much is in use and how much is not, and the sizes of what is.

Fix
    Shrink what is named; record the history, too, to see when it grew.

False positives
    None: it judges nothing.

References
    PyTorch, "Understanding CUDA Memory Usage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.held_activations import ATTENTION, list_held_activations
from sightline.subjects.memory.rules._shared import (
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import add_places

RULE = Rule("memory-held", "What holds the memory")
# As many parts stand in a line; attention is worth a word from a tenth on (ours).
_MOST, _NOTABLE_PCT = 4, 10


def check(run: Run) -> Iterator[Finding]:
    """One remark for each device."""
    if not run.rows("memory_blocks") or not run.rows("memory_segments"):
        return
    if (run.columns("memory_events", ["action"]).get_column("action") == "alloc").any():
        return  # how it came about is known, and told by others
    used = run.table("memory_blocks").filter(pl.col("state") != "inactive")
    placed = add_places(run, used.drop_nulls("stack_id"))
    for device in run.ask("fragmentation").drop_nulls("device_id").iter_rows(named=True):
        reserved, active = device["reserved_bytes"], device["active_bytes"]
        mine = select_device(placed, device)
        if not active:
            continue
        free = device["free_bytes"]
        places = mine.group_by("place").agg(pl.col("bytes").sum(), blocks=pl.len())
        most = places.sort("bytes", "place", descending=[True, False]).row(0, named=True)
        held = list_held_activations(run, mine)
        size = sum_column(held, "bytes")
        if 2 * size > active:
            yield _report_activations(held, device, size)
            continue
        if 2 * sum_column(mine, "bytes") < active:
            yield _report_unknown(select_device(used, device), device, places)
            continue
        yield build_finding(
            RULE,
            f"{format_bytes(active)} of the {format_bytes(reserved)} that the allocator holds on "
            f"{name_device(device)} are in use ({write_share(active, reserved)}), "
            f"{format_bytes(most['bytes'])} from {most['place'] or 'no known line'}; the largest "
            f"free piece has {format_bytes(device['largest_free_bytes'] or 0)}.",
            Evidence(
                [
                    *list_places(places),
                    f"{format_bytes(free)} are free: {format_bytes(device['unused_bytes'])} in "
                    f"segments that nothing uses, {format_bytes(device['pinned_bytes'])} in pieces",
                ],
                where=locate_device(device),
            ),
            Advice(
                fix="shrink what these lines allocate; to see when it grew, record the history:  "
                "torch.cuda.memory._record_memory_history()  before the snapshot",
                verify="sightline stats fragmentation AFTER: active_bytes",
                sources=("PyTorch, Understanding CUDA Memory Usage",),
            ),
            price=price_part(active, None, reserved, "bytes"),
            method="the blocks in use of the snapshot",
            severity="info",
        )


def _report_unknown(used: pl.DataFrame, device: dict[str, Any], places: pl.DataFrame) -> Finding:
    """How much is in use and how much is not, where most blocks have no stack that says of what."""
    reserved, active = device["reserved_bytes"], device["active_bytes"]
    known = sum_column(places, "bytes")
    tells = 100 * known >= _NOTABLE_PCT * active
    unused, pieces = device["unused_bytes"], device["pinned_bytes"]
    sizes = used.group_by("bytes").len().sort(pl.col("bytes") * pl.col("len"), descending=True)
    each = ", ".join(f"{n} × {format_bytes(size)}" for size, n in sizes.head(_MOST).rows())
    gives_back = 100 * unused >= _NOTABLE_PCT * reserved
    return build_finding(
        RULE,
        f"Of the {format_bytes(reserved)} that the allocator holds on {name_device(device)}, "
        f"{format_bytes(active)} are in use ({write_share(active, reserved)}), "
        f"{format_bytes(unused)} lie in segments that nothing uses, and {format_bytes(pieces)} in "
        "pieces between blocks.",
        Evidence(
            [
                *(list_places(places, most=_MOST) if tells else ()),
                f"no stack says who made {format_bytes(active - known)} of what is in use",
                f"blocks of one size that take most: {each}",
                f"the largest free piece has {format_bytes(device['largest_free_bytes'] or 0)}",
            ],
            where=locate_device(device),
        ),
        Advice(
            fix="record the history with stacks, which says who holds it:  "
            "torch.cuda.memory._record_memory_history()  as the program begins"
            + (
                f"; torch.cuda.empty_cache() gives {format_bytes(unused)} back, once the phase "
                "that needed them is over"
                if gives_back
                else ""
            ),
            verify="sightline stats fragmentation AFTER: active_bytes",
            sources=("PyTorch, Understanding CUDA Memory Usage",),
        ),
        price=price_part(active, None, reserved, "bytes"),
        method="the blocks in use of the snapshot",
        severity="info",
    )


def _report_activations(held: pl.DataFrame, device: dict[str, Any], size: int) -> Finding:
    """What forward passes hold, by layer, and how to hold less of it."""
    reserved = device["reserved_bytes"]
    layers = (
        held.group_by(pl.col("layer").fill_null("other layers"))
        .agg(pl.col("bytes").sum())
        .sort("bytes", "layer", descending=[True, False])
    )
    by_layer = ", ".join(f"{name} {format_bytes(b)}" for name, b in layers.head(_MOST).rows())
    attention = sum_column(layers.filter(pl.col("layer") == ATTENTION), "bytes")
    shrinks = 100 * attention >= _NOTABLE_PCT * size
    # Recomputed, the largest of them are there while they are needed.
    again = find_largest(held.group_by("line").agg(pl.col("bytes").sum()), "bytes")
    return build_finding(
        RULE,
        f"{format_bytes(size)} of the {format_bytes(reserved)} that the allocator holds on "
        f"{name_device(device)} ({write_share(size, reserved)}) were allocated in forward passes "
        f"and are still held: activations that wait for the backward pass ({by_layer}).",
        Evidence(
            [
                *list_places(held.select("bytes", place="line", blocks=pl.lit(1)), most=_MOST),
                "no history was recorded: that a backward pass needs them is inferred from where "
                "they were allocated",
            ],
            where=locate_device(device),
        ),
        Advice(
            fix="gradient checkpointing around the repeated block "
            "(model.enable_gradient_checkpointing(), torch.utils.checkpoint)"
            + (
                "; attention that writes no scores out (scaled_dot_product_attention)"
                if shrinks
                else ""
            )
            + "; torch.no_grad() where nothing is learned; or a smaller batch",
            verify="sightline stats fragmentation AFTER: active_bytes",
            cause="the backward pass needs what the forward pass computed",
            sources=("Chen et al. (2016): sublinear memory cost",),
        ),
        price=price_part(size, max(0, size - again), reserved, "bytes"),
        method="bound: what forward passes hold, less what one line allocates at most",
        title="Activations hold the memory",
        confidence="medium",
    )
