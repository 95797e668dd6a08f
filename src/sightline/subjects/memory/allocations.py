"""The blocks of memory that a recording tells of: when each was allocated and freed, and by whom.

Events of one moment have an order, so a block knows the events that began and ended it by their
number in the recording as well as by their time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import polars as pl

from sightline._native import Ledger, peaks_without
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.model.run import Run
from sightline.timeline.memory_calls import find_memory_calls

# What native/passes/ledger.h makes of an action.
_CODES = {
    "alloc": 0, "free_requested": 1, "free": 2, "segment_alloc": 3, "segment_map": 3,
    "segment_free": 4, "segment_unmap": 4,
}  # fmt: skip
_FREE, _OTHER = 2, 5
MEMORY = ["rank", "device_id", "memory_kind"]  # a memory that has its own addresses
_SUMS = ("allocated", "active", "reserved")
# What is asked of an event: half of its columns.
_OF_EVENTS = (
    *MEMORY,
    "time_ns",
    "action",
    "address",
    "bytes",
    "stack_id",
    "name",
    "device_free_bytes",
    *(f"{name}_bytes" for name in _SUMS),
)
# Events that are gone through together. Each query of a file costs 50 ms by itself; of a frame in
# memory next to nothing, and what is made of a part on the way is gone before the next.
_AT_ONCE = 1 << 20
_AT_ONCE_OF_FRAME = 1 << 17
# Events by number: 2^31 of them would be a snapshot of 190 GB.
EVENT = pl.Int32
LAST_EVENT = 2**31 - 1  # no event comes after it
NUMBER = pl.Int32  # of a memory


class Allocations(NamedTuple):
    """What happened, and what lived: narrow columns, since a snapshot of 1 GB has 10^7 events.

    `memories`: memory (its number), rank, device_id, memory_kind.

    `events`: event (its number), memory, time_ns, allocated_bytes after it.

    `rare`: the events that are of no block, being something else or without an address: event,
    memory, time_ns, action, bytes, stack_id, name, device_free_bytes, allocated_bytes,
    active_bytes, reserved_bytes.

    `peaks`: for each memory the first event after which most is allocated: memory, event, time_ns,
    allocated_bytes, active_bytes, reserved_bytes, and most_active_bytes and most_reserved_bytes of
    all events.

    `blocks`: memory, address, bytes, stack_id; allocated, released and freed, the numbers of the
    events, null where there is no such event: before the recording, or after it. A block is
    released when its free is requested; where no request is recorded, when it is freed. They are
    in the order of their first events, then those that only the end of the recording tells of.

    `releases`: where blocks from before the recording were released: released, release_stack_id.

    Where the recording has no sums, they are counted from 0 at the first event; where it has no
    addresses either, from the least that lets no sum be below 0, since what is freed was there.
    """

    memories: pl.DataFrame
    events: pl.DataFrame
    rare: pl.DataFrame
    peaks: pl.DataFrame
    blocks: pl.DataFrame
    releases: pl.DataFrame


def follow_allocations(run: Run) -> Allocations:
    """All events of allocators, and the blocks that they tell of."""
    return run.once(_follow)


def select_memory(found: Allocations, frame: pl.DataFrame, row: dict[str, Any]) -> pl.DataFrame:
    """The rows of the memory that a row with MEMORY is about; uncopied where there is but one."""
    if found.memories.height == 1:
        return frame
    here = found.memories.filter(pl.col(name).eq_missing(row[name]) for name in MEMORY)
    return frame.filter(pl.col("memory") == here.item(0, "memory"))


def _follow(run: Run) -> Allocations:
    known = _survey_events(run)
    memories, missing = known.memories, known.missing
    ledger = Ledger(keeps_blocks=True)
    events, rare, peaks, stacks, held = [], [], [], [], []
    start = 0
    for part in _read_ahead(_read_parts(run, known)):
        steps = _encode_steps(part)
        counted = unpack_columns(ledger.add(pack_numbers(steps)))
        part = _fill_sums(part, counted, missing if known.has_address else {}).with_columns(
            event=pl.int_range(start, start + part.height, dtype=EVENT, eager=True)
        )
        start += part.height
        events.append(part.select("event", "memory", "time_ns", "allocated_bytes"))
        rare.append(part.filter(steps.get_column("action") > _FREE).drop("address"))
        peaks.append(_find_peaks(part))
        stacks.append(part.get_column("stack_id"))
        held.append(part.group_by("memory").agg(pl.col("reserved_bytes").last()))
    earlier = _measure_earlier(run, known, pl.concat(held)) if held else None
    blocks = unpack_columns(ledger.blocks())
    blocks = blocks.select(
        pl.col("device_id").cast(NUMBER).alias("memory"),
        "address",
        "bytes",
        pl.concat(stacks).gather(blocks.get_column("allocated_row")).alias("stack_id"),
        allocated=pl.col("allocated_row").cast(EVENT),
        released=pl.coalesce("requested_row", "freed_row").cast(EVENT),
        freed=pl.col("freed_row").cast(EVENT),
    )
    of_earlier = blocks.filter(pl.col("allocated").is_null()).select("released").drop_nulls()
    return Allocations(
        memories,
        pl.concat(events, rechunk=True),  # once: each question of peaks would do it again
        _add_earlier(pl.concat(rare), earlier),
        _add_earlier(_merge_peaks(pl.concat(peaks)), earlier),
        _add_found(blocks, _read_found(run, memories)),
        of_earlier.with_columns(
            release_stack_id=pl.concat(stacks).gather(of_earlier.get_column("released"))
        ),
    )


class _Survey(NamedTuple):
    """The memories of all events and of all blocks found at the end; the sums no event has.

    A snapshot of the allocator has no sums, a profiler's trace beside it has them.
    """

    memories: pl.DataFrame
    missing: dict[str, list[int]]  # by the sum: the memories of which no event has it
    has_address: bool
    has_requests: bool  # of frees, which only an allocator's own history tells of


def _survey_events(run: Run) -> _Survey:
    # Several questions: of one that asks all, ten million rows take twice as long.
    events = run.scan("memory_events")
    used = events.select(MEMORY).unique().collect(engine="streaming")
    found = _scan_found(run).select(MEMORY).unique().collect()
    memories = (
        pl.concat([used, found])
        .unique()
        .sort(MEMORY, nulls_last=True)
        .with_columns(memory=pl.int_range(1, pl.len() + 1, dtype=NUMBER))
    )
    counts = _count_known(events, memories, used.height)
    # Where others have addresses, events without any are marks in an allocator's history.
    has_address = counts.get_column("address").sum() > 0
    followed = counts.filter(pl.col("address") > 0) if has_address else counts
    request = events.filter(pl.col("action") == "free_requested").select("action").head(1)
    return _Survey(
        memories,
        {
            name: unsummed
            for name in _SUMS
            if (unsummed := followed.filter(pl.col(name) == 0).get_column("memory").to_list())
        },
        has_address,
        request.collect(engine="streaming").height > 0,
    )


def _count_known(events: pl.LazyFrame, memories: pl.DataFrame, used: int) -> pl.DataFrame:
    """How many events of each memory have each sum, and an address: memory, and a column each."""
    known = [*(pl.col(f"{name}_bytes").count().alias(name) for name in _SUMS)]
    known.append(pl.col("address").count())
    if used > 1:  # groups take longer
        counts = events.group_by(MEMORY).agg(known).collect(engine="streaming")
        return counts.join(memories, on=MEMORY, nulls_equal=True)
    counts = events.select(known).collect(engine="streaming")
    return memories.select("memory").join(counts, how="cross")


def _read_parts(run: Run, known: _Survey) -> Iterator[pl.DataFrame]:
    """The events in order, some at a time: a large snapshot has ten million of them."""
    scanned = run.scan("memory_events").select(_OF_EVENTS)
    made = find_memory_calls(run).stack_ids
    if made is not None:
        scanned = run.columns("memory_events", _OF_EVENTS).with_columns(made).lazy()
    # An allocator's own history is in order, whatever its clock says; profilers write one thread's
    # events after another's.
    at_once = _AT_ONCE
    if not known.has_requests:
        at_once = _AT_ONCE_OF_FRAME
        scanned = scanned.sort("time_ns", maintain_order=True).collect().lazy()
    if not known.has_address and known.missing.get("allocated"):
        scanned = _count_sums(scanned.collect()).lazy()
    is_one = known.memories.height == 1
    for start in range(0, max(1, run.rows("memory_events")), at_once):
        # Cut right behind the file: through other steps a slice would not reach it.
        part = scanned.slice(start, at_once)
        events = part.select(pl.exclude(MEMORY) if is_one else pl.all()).collect()
        if is_one:
            yield events.with_columns(memory=pl.lit(1, NUMBER))
        else:
            yield events.join(
                known.memories, on=MEMORY, how="left", nulls_equal=True, maintain_order="left"
            ).drop(MEMORY)


def _read_ahead(parts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same parts, the next of which is read while one is used."""
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, parts, None)
        while (part := waiting.result()) is not None:
            waiting = reader.submit(next, parts, None)
            yield part


def _count_sums(events: pl.DataFrame) -> pl.DataFrame:
    """The events of allocators with what is allocated after each, from their bytes alone."""
    sign = pl.col("action").replace_strict(
        {"alloc": 1, "free": -1}, default=0, return_dtype=pl.Int64
    )
    change = sign * pl.col("bytes").fill_null(0)
    counted = events.with_columns(allocated_bytes=change.cum_sum().over(MEMORY))
    lowest = pl.col("allocated_bytes").min().over(MEMORY).clip(upper_bound=0)
    return counted.with_columns(allocated_bytes=pl.col("allocated_bytes") - lowest)


def _measure_earlier(run: Run, known: _Survey, held: pl.DataFrame) -> pl.DataFrame | None:
    """What each memory had taken from the driver before the first event: memory, earlier_bytes.

    The end's segments tell it, without those that the events have brought; None where sums were
    recorded, which have it in them.
    """
    if "reserved" not in known.missing or not known.has_address:
        return None
    segments = run.table("memory_segments", ["rank", "device_id", "bytes"])
    if segments.is_empty():
        return None
    kinds = known.memories.group_by("rank", "device_id").agg(pl.len(), pl.col("memory").first())
    last = held.group_by("memory", maintain_order=True).agg(pl.col("reserved_bytes").last())
    at_end = segments.group_by("rank", "device_id").agg(pl.col("bytes").sum())
    return (
        kinds.filter(pl.col("len") == 1)
        .join(at_end, on=["rank", "device_id"], nulls_equal=True)
        .filter(pl.col("memory").is_in(known.missing["reserved"]))
        .join(last, on="memory")
        .select(
            "memory",
            earlier_bytes=(pl.col("bytes") - pl.col("reserved_bytes")).clip(lower_bound=0),
        )
    )


def _add_earlier(frame: pl.DataFrame, earlier: pl.DataFrame | None) -> pl.DataFrame:
    """What was reserved, with what was before the first event."""
    if earlier is None:
        return frame
    sums = [name for name in ("reserved_bytes", "most_reserved_bytes") if name in frame.columns]
    added = frame.join(earlier, on="memory", how="left", maintain_order="left")
    more = pl.col("earlier_bytes").fill_null(0)
    return added.with_columns(pl.col(name) + more for name in sums).drop("earlier_bytes")


def _encode_steps(part: pl.DataFrame) -> pl.DataFrame:
    """Events as the ledger takes them: memory, action, address, bytes."""
    action = pl.lit(_OTHER, pl.Int64)
    for name, code in _CODES.items():
        action = pl.when(pl.col("action") == name).then(code).otherwise(action)
    # What has no address is no block that could be followed.
    known = pl.when(pl.col("address").is_null()).then(_OTHER).otherwise(action).alias("action")
    return part.select("memory", known, "address", pl.col("bytes").fill_null(0))


def _fill_sums(
    part: pl.DataFrame, counted: pl.DataFrame, missing: dict[str, list[int]]
) -> pl.DataFrame:
    """The events with sums in the memories of which the recording has none."""
    # Waiting to be freed, beside what the recording says is allocated: it began before us.
    waiting = counted.get_column("active") - counted.get_column("allocated")
    filled = part
    for name, memories in missing.items():
        made = pl.lit(counted.get_column(name))
        if name == "active":
            made = pl.col("allocated_bytes") + waiting
        here = pl.col("memory").is_in(memories)
        column = f"{name}_bytes"
        filled = filled.with_columns(pl.when(here).then(made).otherwise(column).alias(column))
    return filled


def _find_peaks(part: pl.DataFrame) -> pl.DataFrame:
    """The first of the highest moments of each memory, and the most of each sum."""
    names = ["event", "memory", "time_ns", *(f"{name}_bytes" for name in _SUMS)]
    found = []
    for mine in part.partition_by("memory") if part["memory"].n_unique() > 1 else [part]:
        allocated = mine.get_column("allocated_bytes")
        most = allocated.max()
        found.append(
            (mine if most is None else mine.filter(allocated == most))
            .head(1)
            .select(
                *names,
                pl.lit(mine.get_column("active_bytes").max(), pl.Int64).alias("most_active_bytes"),
                pl.lit(mine.get_column("reserved_bytes").max(), pl.Int64).alias(
                    "most_reserved_bytes"
                ),
            )
        )
    return pl.concat(found)


def _merge_peaks(peaks: pl.DataFrame) -> pl.DataFrame:
    """One row for each memory that has sums, from those of the parts."""
    most = peaks.group_by("memory").agg(
        pl.col("most_active_bytes").max(), pl.col("most_reserved_bytes").max()
    )
    return (
        peaks.drop("most_active_bytes", "most_reserved_bytes")
        .drop_nulls("allocated_bytes")
        .sort("allocated_bytes", "event", descending=[True, False])
        .unique("memory", keep="first", maintain_order=True)
        .join(most, on="memory")
        .sort("memory")
    )


def _scan_found(run: Run) -> pl.LazyFrame:
    """The blocks that were in use at the end."""
    return (
        run.scan("memory_blocks")
        .filter(pl.col("state").str.starts_with("active_"))
        .select(
            "rank",
            "device_id",
            pl.when(pl.col("device_id").is_null())
            .then(pl.lit("pinned"))
            .otherwise(pl.lit("device"))
            .alias("memory_kind"),
            "address",
            "stack_id",
            bytes=pl.coalesce("requested_bytes", "bytes"),
        )
    )


def _read_found(run: Run, memories: pl.DataFrame) -> pl.DataFrame:
    return (
        _scan_found(run)
        .collect()
        .join(memories, on=MEMORY, nulls_equal=True, maintain_order="left")
        .select("memory", "address", "bytes", "stack_id")
    )


def _add_found(blocks: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """The blocks with those that were found in use at the end, and that no event tells of."""
    by = ["memory", "address"]
    kept = blocks.with_row_index("_row").filter(pl.col("freed").is_null())
    others = found.join(kept, on=by, how="anti", maintain_order="left")
    # Of a block from before the first event, only the end knows who allocated it.
    earlier = kept.filter(pl.col("allocated").is_null()).join(
        found.select(*by, found_stack="stack_id"), on=by
    )
    stacks = (
        blocks.get_column("stack_id")
        .clone()
        .scatter(earlier.get_column("_row"), earlier.get_column("found_stack"))
    )
    return pl.concat([blocks.with_columns(stacks), others], how="diagonal")


def select_live(blocks: pl.DataFrame, event: int) -> pl.DataFrame:
    """The blocks that are allocated just after an event."""
    return blocks.filter(
        (pl.col("allocated") <= event).fill_null(value=True),
        (pl.col("released") > event).fill_null(value=True),
    )


def find_peaks_without(sums: pl.DataFrame, blocks: pl.DataFrame, groups: int) -> list[int]:
    """The most that is allocated after any event of a memory, a group of its blocks left out.

    `sums` has event and allocated_bytes, in order; `blocks` allocated, released, bytes and group,
    from 0 to below `groups` or null; one of unknown bytes stays. One answer for each group.
    """
    known = blocks.select("allocated", "released", "bytes", "group").drop_nulls(["bytes", "group"])
    answers = peaks_without(
        pack_numbers(sums.select("event", "allocated_bytes")),
        pack_numbers(known),
        groups,
    )
    return unpack_columns(answers).get_column("highest").to_list()
