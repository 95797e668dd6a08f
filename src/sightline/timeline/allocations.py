"""The blocks of memory that a recording tells of: when each was allocated and freed, and by whom.

Events of one moment have an order, so a block knows the events that began and ended it by their
number in the recording as well as by their time.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline._native import Ledger
from sightline.algebra.arrow import pack_numbers, unpack_columns
from sightline.algebra.scalars import find_largest, sum_column
from sightline.model.run import Run

# What native/passes/ledger.h makes of an action.
_CODES = {
    "alloc": 0, "free_requested": 1, "free": 2, "segment_alloc": 3, "segment_map": 3,
    "segment_free": 4, "segment_unmap": 4,
}  # fmt: skip
_OTHER = 5
MEMORY = ["rank", "device_id", "memory_kind"]  # a memory that has its own addresses
_SUMS = ("allocated", "active", "reserved")
_MOMENTS = ("allocated", "released", "freed")


class Allocations(NamedTuple):
    """What happened, and what lived.

    `events`: event (its number), memory, rank, device_id, memory_kind, time_ns, action, address,
    bytes, stack_id, device_free_bytes, allocated_bytes, active_bytes, reserved_bytes. Where the
    recording has no sums, they are counted from 0 at the first event.

    `blocks`: memory, rank, device_id, memory_kind, address, bytes, stack_id; allocated, released
    and freed, the numbers of the events, and allocated_ns, released_ns, freed_ns; null where there
    is no such event: before the recording, or after it. A block is released when its free is
    requested; where no request is recorded, when it is freed.
    """

    events: pl.DataFrame
    blocks: pl.DataFrame


def follow_allocations(run: Run) -> Allocations:
    """All events of allocators, and the blocks that they tell of."""
    return run.once(_follow)


def _follow(run: Run) -> Allocations:
    events = _number_events(run)
    steps = events.select(
        "memory",
        _encode_actions(events.get_column("action")),
        "address",
        pl.col("bytes").fill_null(0),
    )
    ledger = Ledger()
    counted = unpack_columns(ledger.add(pack_numbers(steps)))
    unknown = [
        name for name in _SUMS if events.get_column(f"{name}_bytes").null_count() == events.height
    ]
    events = events.with_columns(
        counted.get_column(name).alias(f"{name}_bytes") for name in unknown
    )
    if "active" in unknown and "allocated" not in unknown:
        # Waiting to be freed, beside what the recording says is allocated: it began before us.
        waiting = counted.get_column("active") - counted.get_column("allocated")
        events = events.with_columns(active_bytes=pl.col("allocated_bytes") + waiting)
    blocks = unpack_columns(ledger.blocks()).select(
        pl.col("device_id").alias("memory"),
        "address",
        "bytes",
        allocated="allocated_row",
        released=pl.coalesce("requested_row", "freed_row"),
        freed="freed_row",
    )
    memories = (
        events.select("memory", *MEMORY)
        .unique("memory")
        .with_columns(pl.col("memory_kind").cast(pl.String))
    )
    times, stacks = events.get_column("time_ns"), events.get_column("stack_id")
    blocks = blocks.with_columns(
        stacks.gather(blocks.get_column("allocated")).alias("stack_id"),
        *(times.gather(blocks.get_column(name)).alias(f"{name}_ns") for name in _MOMENTS),
    ).join(memories, on="memory", how="left", maintain_order="left")
    return Allocations(events, _add_found(run, blocks, memories))


def _encode_actions(actions: pl.Series) -> pl.Expr:
    """What the ledger makes of actions: a number for each of the few that there are."""
    code = pl.lit(_OTHER, pl.Int64)
    for action in actions.unique().drop_nulls().cast(pl.String):
        if action in _CODES:
            code = pl.when(pl.col("action") == action).then(_CODES[action]).otherwise(code)
    # What has no address is no block that could be followed.
    return pl.when(pl.col("address").is_null()).then(_OTHER).otherwise(code).alias("action")


def _number_events(run: Run) -> pl.DataFrame:
    """The events in a compact form: a large snapshot has ten million of them."""
    events = (
        run.scan("memory_events")
        .select(
            *MEMORY,
            "time_ns",
            "action",
            "address",
            "bytes",
            "stack_id",
            "device_free_bytes",
            *(f"{name}_bytes" for name in _SUMS),
        )
        .with_columns(pl.col("action", "memory_kind").cast(pl.Categorical))
        .collect(engine="streaming")
    )
    # An allocator's own history is in order, whatever its clock says; profilers write one thread's
    # events after another's.
    if not (events.get_column("action") == "free_requested").any():
        events = events.sort("time_ns", maintain_order=True)
    events = events.with_columns(event=pl.int_range(pl.len(), dtype=pl.Int64))
    memories = events.select(MEMORY).unique(maintain_order=True)
    numbers = memories.with_columns(memory=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    if numbers.height == 1:
        return events.with_columns(memory=pl.lit(1, pl.Int64))
    return events.join(numbers, on=MEMORY, how="left", nulls_equal=True, maintain_order="left")


def _add_found(run: Run, blocks: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """The blocks with those that were found in use at the end, and that no event tells of."""
    found = (
        run.table("memory_blocks")
        .filter(pl.col("state").str.starts_with("active_"))
        .select(
            "rank",
            "device_id",
            pl.when(pl.col("device_id").is_null())
            .then(pl.lit("pinned"))
            .otherwise(pl.lit("device"))
            .alias("memory_kind"),
            "address",
            bytes=pl.coalesce("requested_bytes", "bytes"),
            found_stack="stack_id",
            is_found=True,
        )
    )
    found = found.join(memories, on=MEMORY, how="left", nulls_equal=True)
    if found.is_empty():
        return blocks
    by = [*MEMORY, "address"]
    known = blocks.filter(pl.col("freed").is_null())
    others = found.join(known, on=by, how="anti", nulls_equal=True)
    stacks = found.select(*by, "found_stack")
    return pl.concat(
        [
            blocks.join(stacks, on=by, how="left", nulls_equal=True, maintain_order="left")
            .with_columns(
                # Of a block from before the first event, only the end knows who allocated it.
                stack_id=pl.coalesce(
                    "stack_id",
                    pl.when(pl.col("allocated").is_null() & pl.col("freed").is_null()).then(
                        "found_stack"
                    ),
                )
            )
            .drop("found_stack"),
            others.rename({"found_stack": "stack_id"}).drop("is_found"),
        ],
        how="diagonal",
    )


def select_live(blocks: pl.DataFrame, event: int) -> pl.DataFrame:
    """The blocks that are allocated just after an event."""
    return blocks.filter(
        (pl.col("allocated") <= event).fill_null(value=True),
        (pl.col("released") > event).fill_null(value=True),
    )


def find_peak_without(sums: pl.DataFrame, blocks: pl.DataFrame) -> int:
    """The most that is allocated after any event of a memory, these blocks of it left out.

    `sums` has event and allocated_bytes, in order.
    """
    changes = (
        pl.concat(
            [
                blocks.select(event=pl.col("allocated").fill_null(-1), change=-pl.col("bytes")),
                blocks.drop_nulls("released").select(event="released", change="bytes"),
            ]
        )
        .group_by("event")
        .agg(pl.col("change").sum())
    )
    before = sum_column(changes.filter(pl.col("event") < 0), "change")
    later = changes.filter(pl.col("event") >= 0)
    rows = sums.get_column("event").search_sorted(later.get_column("event"))
    added = pl.zeros(sums.height, pl.Int64, eager=True).scatter(rows, later.get_column("change"))
    left = sums.select(left=pl.col("allocated_bytes") + added.cum_sum() + before)
    return find_largest(left, "left")
