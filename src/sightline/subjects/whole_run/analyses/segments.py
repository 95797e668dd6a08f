"""What of a run repeats, and what happens once."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.segments import list_segments

ANALYSIS = Analysis(
    "segments",
    "What repeats, and what happens once?",
    (
        RANK,
        text("segment", "start-up, repeating or tail", required=True),
        time("start_ns", "start"),
        time("end_ns", "end"),
        duration("duration_ns", "how long it takes"),
        number("steps", "usual steps in it", required=True),
    ),
    needs=("device_ops",),
    notes=(
        "The rows of a rank sum to its window. Steps are marked or found (`iterations`), and last "
        "as `steps` says; usual are those without warm-up, over whole periods.",
        "Without rows where nothing repeats, or where start-up and tail together take no more than "
        "as many usual steps and 5 % of the window; a part in which the device computes for most "
        "of the time is another phase of the program and stays with what repeats.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and segment, in order of time."""
    return list_segments(run).select(
        "rank",
        "segment",
        "start_ns",
        "end_ns",
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        "steps",
    )
