"""When threads wanted to run and had no CPU core, and whether there were too few cores."""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import measure_cover_until
from sightline.algebra.scalars import sum_column
from sightline.model.run import Run
from sightline.rules.system._blame import Blame, find_blame, list_parts
from sightline.timeline.sleeps import list_crowded_times, list_states


def find_waits_for_cpu(run: Run, *, crowded: bool) -> tuple[Blame, pl.DataFrame] | None:
    """What was lost to threads that had no CPU core, and when; None where it is too little.

    `crowded`: most of it while more threads wanted to run than there are cores; else the opposite.
    """
    waits = list_waits_for_cpu(run)
    blame = find_blame(run, waits)
    if blame is None:
        return None
    parts = list_parts(run, blame, waits)
    return (blame, parts) if is_oversubscribed(run, parts) == crowded else None


def list_waits_for_cpu(run: Run) -> pl.DataFrame:
    """States of threads that were preempted, or woken and not yet running."""
    return list_states(run).filter(pl.col("state").is_in(["preempted", "woken"]))


def is_oversubscribed(run: Run, parts: pl.DataFrame) -> bool:
    """Whether most of these times had more threads that wanted to run than CPU cores."""
    return 2 * measure_crowded(run, parts) > sum_column(parts, "length")


def measure_crowded(run: Run, parts: pl.DataFrame) -> int:
    """How much of these times had more threads that wanted to run than CPU cores, ns."""
    crowded = list_crowded_times(run)
    trace = ["rank", "recording_id"]
    inside = measure_cover_until(parts, "end_ns", crowded, trace) - measure_cover_until(
        parts, "start_ns", crowded, trace
    )
    return int(inside.sum())
