"""Blocks of a caching allocator: the parts of its segments."""

from sightline.core.model.columns import RANK, RECORDING, Table, ident, join, number, size, text

TABLE = Table(
    "memory_blocks",
    "a block of a memory segment when the recording ended, free or in use",
    (
        RANK,
        RECORDING,
        ident("block_id", "key"),
        join("segment_id", "memory_segments.segment_id", "the segment that it is a part of"),
        number("device_id", "device; null for the host"),
        number("address", "address"),
        size("bytes", "size, with what rounding added"),
        size("requested_bytes", "what the program asked for"),
        text(
            "state",
            "active_allocated, active_pending_free or active_awaiting_free (used by another "
            "stream still), inactive (free)",
        ),
        join("stack_id", "stacks.stack_id", "call stack that allocated it; null where it is free"),
        text("user_metadata", "what the program noted at the allocation"),
        text("other", "what else the recording says of it, as JSON"),
    ),
)
