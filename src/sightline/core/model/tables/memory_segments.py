"""Segments of a caching allocator: what it took from the driver."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    flag,
    ident,
    join,
    number,
    size,
    text,
)

TABLE = Table(
    "memory_segments",
    "a piece of memory that a caching allocator held when the recording ended",
    (
        RANK,
        RECORDING,
        ident("segment_id", "key"),
        number("device_id", "device; null for the host"),
        number("address", "address"),
        size("bytes", "size"),
        size("allocated_bytes", "of it, in blocks that are allocated"),
        size("active_bytes", "of it, in blocks that are allocated or wait to be freed"),
        size("requested_bytes", "what the program asked for of the active bytes, before rounding"),
        number("stream_id", "the stream whose allocations it serves"),
        text("segment_type", "small or large"),
        text("pool", "the pool that it belongs to: a CUDA graph's or a memory pool's own"),
        flag("is_expandable", "can grow in place (expandable_segments:True)"),
        join("stack_id", "stacks.stack_id", "the allocation that made the allocator ask for it"),
        text("other", "what else the recording says of it, as JSON"),
    ),
)
