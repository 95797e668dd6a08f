"""When the network had data to send and could not: nsys calls it network_congestion."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.nsys.analyses._shared import declare_name, move_to_session_time

ANALYSIS = Analysis(
    "network_congestion",
    "When was a network card congested? (as nsys stats)",
    (
        number("Start (ns)", "start, since the session began", "ns"),
        number("End (ns)", "end", "ns"),
        number("Duration (ns)", "duration", "ns"),
        real("Send wait rate", "ticks per ms that data waited to be sent", "ticks/ms"),
        text("GUID", "identity of the card; only kept when asked for"),
        declare_name("Name", "card and port"),
    ),
    needs=("counters",),
    # nsys stats --help-reports=network_congestion, 2026.2
    params=(Param("ticks_threshold", 10_000, "least rate that is listed", "ticks/ms"),),
    notes=("Recorded with --nic-metrics=true. The length of a tick depends on the card.",),
)


def run(run: Run, *, ticks_threshold: int = 10_000) -> pl.DataFrame:
    """One row per interval above the threshold, in order of start."""
    waits = run.table("counters").filter(pl.col("metric").str.contains("(?i)send wait"))
    if waits.is_empty():
        raise MissingDataError(
            "'network_congestion' cannot be answered",
            why="the recording has no metric of a network card that counts send waits",
            hint="Record with:  nsys profile --nic-metrics=true",
        )
    length = pl.col("time_ns") - pl.col("from_ns")
    per_ms = pl.col("unit").str.contains("/ms").fill_null(value=False)
    rate = (
        pl.when(per_ms)
        .then("value")
        .otherwise(pl.when(length > 0).then(pl.col("value") / (length / 1_000_000)))
    )
    return (
        move_to_session_time(waits.with_columns(rate=rate), run, "from_ns", "time_ns")
        .filter(pl.col("rate") > ticks_threshold)
        .sort("from_ns", "source")
        .select(
            pl.col("from_ns").alias("Start (ns)"),
            pl.col("time_ns").alias("End (ns)"),
            (pl.col("time_ns") - pl.col("from_ns")).alias("Duration (ns)"),
            pl.col("rate").alias("Send wait rate"),
            pl.lit(None, pl.String).alias("GUID"),
            pl.col("source").fill_null("unknown").alias("Name"),
        )
    )
