"""Values over time."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, real, text, time

TABLE = Table(
    "counters",
    "the value of a metric at a time",
    (
        RANK,
        RECORDING,
        text("metric", "name of the metric", required=True),
        text("unit", "unit, where the recording names it"),
        number("device_id", "device; null for the host"),
        text("source", "what was measured where it is not a GPU: a NIC, a port, a CPU core"),
        time("from_ns", "start of the interval that the value covers", required=False),
        time("time_ns", "when, or the end of the interval"),
        real("value", "value"),
    ),
)
