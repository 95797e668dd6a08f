"""Waits between streams, events and the host."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, text, time

TABLE = Table(
    "syncs",
    "a wait between streams, events and the host",
    (
        RANK,
        RECORDING,
        text("kind", "event, stream_wait_event, stream or context", required=True),
        join("host_op_id", "host_ops.host_op_id", "the API call that waits"),
        number("device_id", "device"),
        number("stream_id", "stream that waits or is waited for"),
        number("event_id", "event"),
        number("wait_on_stream_id", "stream that the event was recorded on"),
        number("event_sync_id", "one recording of the event; the same in cuda_events"),
        number("context_id", "context"),
        number("pid", "process id"),
        number("correlation_id", "the profiler's number of the API call"),
        number("recorded_by_correlation_id", "number of the call that recorded the event"),
        time("start_ns", "start"),
        time("end_ns", "end"),
    ),
)
