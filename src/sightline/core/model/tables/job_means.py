"""What is known of a metric of a job as a whole: mean, least and most, without times."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, real, text

TABLE = Table(
    "job_means",
    "the mean of a metric over a job, or over a part of it",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("metric", "cpu_load, acc_utilization, ...: job_metrics.py", required=True),
        text("unit", "bytes, bytes/s, flop/s, W, Hz, %, or none"),
        text("host", "the node; null for the mean over nodes"),
        text("scope", "node, socket, core, hwthread, accelerator: what it was measured of"),
        text("element", "which one there; null for all"),
        real("avg", "mean over time; null where only the most is known"),
        real("min", "least value"),
        real("max", "largest value"),
    ),
)
