"""What a cluster's operators call normal of a metric."""

from sightline.core.model.columns import RANK, RECORDING, Table, real, text

TABLE = Table(
    "metric_limits",
    "what a metric reaches on nodes of one kind, and the limits beyond which it is reported",
    (
        RANK,
        RECORDING,
        text("cluster", "cluster", required=True),
        text("sub_cluster", "part of it with nodes of one kind; null for all others"),
        text("metric", "cpu_load, acc_utilization, ...: job_metrics.py", required=True),
        text("unit", "bytes, bytes/s, flop/s, W, Hz, %, or none"),
        text("scope", "what the limits are of: node, core, accelerator"),
        real("peak", "the highest possible value"),
        real("normal", "what a normal job reaches"),
        real("caution", "worth a look"),
        real("alert", "something is wrong"),
    ),
)
