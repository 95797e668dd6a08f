"""When threads wanted to run and had no CPU core, and whether there were too few cores."""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import measure_cover_until
from sightline.algebra.scalars import sum_column
from sightline.model.run import Run
from sightline.timeline.sleeps import list_crowded_times, list_states


def list_waits_for_cpu(run: Run) -> pl.DataFrame:
    """States of threads that were preempted, or woken and not yet running."""
    return list_states(run).filter(pl.col("state").is_in(["preempted", "woken"]))


def is_oversubscribed(run: Run, parts: pl.DataFrame) -> bool:
    """Whether most of these times had more threads that wanted to run than CPU cores."""
    return 2 * measure_crowded(run, parts) > sum_column(parts, "length")


def measure_crowded(run: Run, parts: pl.DataFrame) -> int:
    """How much of these times had more threads that wanted to run than CPU cores, ns."""
    crowded = list_crowded_times(run)
    inside = measure_cover_until(parts, "end_ns", crowded, ["rank"]) - measure_cover_until(
        parts, "start_ns", crowded, ["rank"]
    )
    return int(inside.sum())
