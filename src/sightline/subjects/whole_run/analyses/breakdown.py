"""Where each device's time went: compute, exposed communication, exposed copies, unknown, idle."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import partition_windows
from sightline.core.model.columns import RANK, duration, number, pct
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import CLASSES, classify_run

_PARTS = (*CLASSES, "idle")

ANALYSIS = Analysis(
    "breakdown",
    "Where did each device's time go?",
    (
        RANK,
        number("device_id", "device", required=True),
        duration("window_ns", "length of the window"),
        duration("compute_ns", "a compute kernel or a whole graph launch was running"),
        duration("exposed_comm_ns", "communication was running without compute"),
        duration("exposed_copy_ns", "a copy or memset was running, and none of the above"),
        duration("unknown_ns", "what was running only waits, or is of unknown purpose"),
        duration("idle_ns", "nothing was running on the device"),
        *(pct(f"{part}_pct", f"{part}_ns, % of the window") for part in _PARTS),
    ),
    needs=("device_ops",),
    notes=("The five parts are disjoint and sum to the window to the nanosecond.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device."""
    ops = classify_run(run)
    by = ["rank", "device_id"]
    parts = partition_windows(ops, run.ask("windows"), by, CLASSES)
    whole = parts.select(pl.sum_horizontal(f"{p}_ns" for p in _PARTS) == pl.col("window_ns"))
    assert whole.to_series().all(), "the parts must sum to the window"
    return parts.with_columns(
        (100.0 * pl.col(f"{p}_ns") / pl.col("window_ns")).fill_nan(0.0).alias(f"{p}_pct")
        for p in _PARTS
    )
