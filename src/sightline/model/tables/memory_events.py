"""Allocations and frees."""

from sightline.model.columns import RANK, RECORDING, Table, join, number, size, text, time

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
        text("memory_kind", "pageable, pinned, device, managed, array, ..."),
        text("name", "variable or symbol that the memory belongs to"),
        number("stream_id", "stream of a stream-ordered allocation"),
        number("pool_address", "memory pool that it was taken from"),
        number("correlation_id", "the profiler's number of the API call"),
        join("host_op_id", "host_ops.host_op_id", "the API call that did it"),
    ),
)
