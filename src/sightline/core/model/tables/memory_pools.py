"""Events of device memory pools."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, size, text, time

TABLE = Table(
    "memory_pools",
    "a device memory pool being created, trimmed or destroyed",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("device_id", "device"),
        number("pid", "process id"),
        number("address", "the pool"),
        text("action", "created, destroyed or trimmed", required=True),
        text("pool_type", "local or imported"),
        size("pool_bytes", "size of the pool"),
        size("used_bytes", "bytes in use"),
        size("release_threshold_bytes", "bytes that the pool keeps"),
        size("min_bytes_to_keep", "what the trim was asked to keep"),
        number("correlation_id", "the profiler's number of the API call"),
    ),
)
