"""How much later things could end without making the run longer."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.replay.critical_path import compute_slack

ANALYSIS = Analysis(
    "slack",
    "How much longer could each operation take at no cost?",
    (
        text("name", "operation", required=True),
        number("instances", "how often it ran"),
        duration("total_ns", "sum of its durations"),
        number("critical", "instances without slack"),
        pct("critical_pct", "critical, % of instances"),
        duration("median_slack_ns", "half of the instances have at most this"),
        duration("least_slack_ns", "the instance with least"),
    ),
    needs=("device_ops",),
    notes=("Slack is of one operation alone: what two share is counted for both.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name of device operations, the most expensive first."""
    nodes = run.ask("dependencies")
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        nodes.with_columns(slack=compute_slack(nodes))
        .filter(~pl.col("kind").is_in(["call", "finish"]))
        .group_by("name")
        .agg(
            instances=pl.len(),
            total_ns=length.sum(),
            critical=(pl.col("slack") <= 0).sum(),
            median_slack_ns=pl.col("slack").median().cast(pl.Int64),
            least_slack_ns=pl.col("slack").min(),
        )
        .with_columns(critical_pct=100 * pl.col("critical") / pl.col("instances"))
        .sort("total_ns", "name", descending=[True, False])
    )
