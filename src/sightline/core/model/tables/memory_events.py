"""Allocations and frees, and what else an allocator does."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, size, text, time

TABLE = Table(
    "memory_events",
    "an allocation, a free, or another event of an allocator",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("device_id", "device; null for the host"),
        text(
            "action",
            "alloc or free; of PyTorch's allocator also free_requested (the program is done with "
            "it, a stream may not be), segment_alloc and segment_map (asked of the driver), "
            "segment_free and segment_unmap (given back), oom, snapshot, annotate, range_start "
            "and range_end (an annotation of the program)",
            required=True,
        ),
        number("address", "address"),
        size("bytes", "size; always positive; of an oom what was asked for"),
        size("allocated_bytes", "allocated in all after it"),
        size("active_bytes", "allocated, or waiting to be freed, in all after it"),
        size("reserved_bytes", "reserved by the allocator after it"),
        number("pid", "process id"),
        number("tid", "thread id"),
        text("memory_kind", "pageable, pinned, device, managed, array, ..."),
        text("name", "variable or symbol that the memory belongs to"),
        number("stream_id", "stream of a stream-ordered allocation"),
        number("pool_address", "memory pool that it was taken from"),
        number("correlation_id", "the profiler's number of the API call"),
        join("host_op_id", "host_ops.host_op_id", "the API call that did it"),
        join("stack_id", "stacks.stack_id", "the call stack that did it"),
        text("pool", "the allocator's pool: a CUDA graph's or a memory pool's own"),
        size("device_free_bytes", "of an oom: what the driver still had"),
        text("user_metadata", "what the program noted at the allocation"),
        text("compile_context", "the compiled region that it happened in"),
        text("other", "what else the recording says of it, as JSON"),
    ),
)
