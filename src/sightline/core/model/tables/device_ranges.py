"""Annotations that a profiler projected on the device's timeline. They are not device work."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "device_ranges",
    "an annotation that the profiler itself projected on a stream",
    (
        RANK,
        RECORDING,
        number("device_id", "device"),
        number("stream_id", "stream"),
        text("name", "text of the annotation", required=True),
        time("start_ns", "start"),
        time("end_ns", "end"),
    ),
)
