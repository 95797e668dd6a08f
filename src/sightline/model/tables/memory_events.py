"""Allocations and frees."""

from sightline.model.columns import RANK, RECORDING, Table, number, size, text, time

TABLE = Table(
    "memory_events",
    "an allocation or a free",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("device_id", "device; null for the host"),
        text("action", "alloc or free", required=True),
        number("address", "address"),
        size("bytes", "size; always positive"),
        size("allocated_bytes", "allocated in all after it"),
        size("reserved_bytes", "reserved by the allocator after it"),
        number("pid", "process id"),
        number("tid", "thread id"),
    ),
)
