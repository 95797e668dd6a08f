"""Where the main thread's time goes, for programs that use no device."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.host_parts import list_segments, list_windows

ANALYSIS = Analysis(
    "host_breakdown",
    "Where does the main thread's time go?",
    (
        RANK,
        text(
            "part",
            "loading data, communication, optimizer, compiling, an operator's kind, dispatch "
            "(operators that call others), operators of other threads, between engine steps (an "
            "inference engine's worker waits for its scheduler or for requests), or Python (no "
            "operator anywhere)",
            required=True,
        ),
        duration("own_ns", "time whose innermost range is of that part"),
        pct("window_pct", "% of the rank's window: its parts add up to 100"),
        number("ranges", "ranges that have some of it"),
        duration("window_ns", "the window: the marked steps, else first to last operator"),
        number("steps", "marked steps in the window, 0 where none are marked"),
    ),
    needs=("host_ops",),
    notes=(
        "The main thread is the one that marks steps, else the one with most time in operators.",
        "Without an operator of its own the thread waits for what others do, as far as recorded.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and part, the largest first."""
    windows = list_windows(run).select(
        "rank", "steps", window_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    return (
        list_segments(run)
        .group_by("rank", "part")
        .agg(pl.col("own_ns").sum(), ranges=pl.col("host_op_id").n_unique().cast(pl.Int64))
        .join(windows, on="rank")
        .with_columns(window_pct=100 * pl.col("own_ns") / pl.col("window_ns"))
        .sort("rank", "own_ns", "part", descending=[False, True, False])
        .select(column.name for column in ANALYSIS.columns)
    )
