"""Where does the time to the first token go? All requests' waiting for it, in parts.

Each part is the sum of request_time's over all requests; they sum to the clients' times to the
nanosecond.

part
queue and other steps   steps before the one that made the first token: of others, or own chunks
own step                the step that made the first token
scheduling              between steps
before the first step   the API server and the engine begin, or work that was not recorded
delivery                none of these: the network, the API server, the client
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "first_token_time",
    "Where does the time to the first token go?",
    (
        RANK,
        text("part", "what the requests waited for", required=True),
        duration("total_ns", "sum over all requests"),
        duration("mean_ns", "of one request"),
        pct("share_pct", "total_ns, % of all parts"),
        number("requests", "requests of the clients"),
    ),
    needs=("served_requests",),
    notes=("The parts' total_ns sum to the requests' ttft_ns.",),
)
PARTS = {
    "queue and other steps": "ttft_other_steps_ns",
    "own step": "ttft_own_step_ns",
    "scheduling": "ttft_scheduling_ns",
    "before the first step": "ttft_before_steps_ns",
    "delivery": "ttft_delivery_ns",
}


def run(run: Run) -> pl.DataFrame:
    """One row per rank and part that has time. Raises MissingDataError."""
    known = run.ask("request_time")
    sums = known.group_by("rank").agg(
        pl.len().cast(pl.Int64).alias("requests"),
        *(pl.col(column).sum().alias(part) for part, column in PARTS.items()),
    )
    rows = sums.unpivot(
        list(PARTS), index=["rank", "requests"], variable_name="part", value_name="total_ns"
    ).filter(pl.col("total_ns") != 0)
    return (
        rows.with_columns(
            mean_ns=(pl.col("total_ns") / pl.col("requests")).round().cast(pl.Int64),
            share_pct=100 * pl.col("total_ns") / pl.col("total_ns").sum().over("rank"),
        )
        .sort("rank", "total_ns", "part", descending=[False, True, False])
        .select(column.name for column in ANALYSIS.columns)
    )
