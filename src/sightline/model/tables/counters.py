"""Values over time."""

from sightline.model.columns import RANK, RECORDING, Table, number, real, text, time

TABLE = Table(
    "counters",
    "the value of a metric at a time",
    (
        RANK,
        RECORDING,
        text("metric", "name of the metric", required=True),
        text("unit", "unit, where the recording names it"),
        number("device_id", "device; null for the host"),
        time("time_ns", "when"),
        real("value", "value"),
    ),
)
