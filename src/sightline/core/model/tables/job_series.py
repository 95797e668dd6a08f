"""Values of a job's metrics over time."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    duration,
    join,
    real,
    text,
    time,
)

TABLE = Table(
    "job_series",
    "the value of a metric of a job at a time",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("metric", "cpu_load, acc_utilization, ...: job_metrics.py", required=True),
        text("unit", "bytes, bytes/s, flop/s, W, Hz, %, or none"),
        text("host", "the node"),
        text("scope", "node, socket, core, hwthread, accelerator: what it was measured of"),
        text("element", "which one there; null for the node"),
        time("time_ns", "start of the sample"),
        duration("step_ns", "time between samples"),
        real("value", "value; null where the sample is missing"),
    ),
)
