"""Recorded CUDA events: with `syncs` they tell which stream waits for which work."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, time

TABLE = Table(
    "cuda_events",
    "a recording of a CUDA event on a stream",
    (
        RANK,
        RECORDING,
        time("time_ns", "when the device reached it, where the profiler says", required=False),
        number("device_id", "device"),
        number("context_id", "context"),
        number("stream_id", "stream that it was recorded on"),
        number("event_id", "event"),
        number("event_sync_id", "this recording of the event; the same in syncs"),
        number("pid", "process id"),
        number("correlation_id", "the profiler's number of the API call"),
        join("host_op_id", "host_ops.host_op_id", "the API call that recorded it"),
    ),
)
