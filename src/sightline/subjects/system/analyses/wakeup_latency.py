"""How long threads waited for a CPU after they were woken: the scheduler's latency."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import LENGTHS, name_threads, sum_lengths
from sightline.timeline.sleeps import list_states
from sightline.timeline.thread_states import THREAD

ANALYSIS = Analysis(
    "wakeup_latency",
    "How long did each CPU thread wait for a CPU after it was woken?",
    (
        RANK,
        number("pid", "process id"),
        number("tid", "thread id"),
        text("thread_name", "thread name"),
        *LENGTHS,
        time("longest_ns", "start of the longest", required=False),
    ),
    needs=("sched_events", "wakeups"),
    notes=("From the first wake-up of a sleeping thread until it ran.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per thread, the longest wait first."""
    woken = list_states(run).with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        # A thread that was woken and never ran has waited for no known time.
        ran=pl.col("state").shift(-1).over(THREAD) == "running",
    )
    woken = woken.filter((pl.col("state") == "woken") & pl.col("ran").fill_null(value=False))
    found = woken.group_by(THREAD, maintain_order=True).agg(
        pl.col("pid").drop_nulls().last(),
        *sum_lengths(),
        longest_ns=pl.col("start_ns").sort_by("length", descending=True).first(),
    )
    found = name_threads(found, run, "tid", "thread_name")
    order = found.sort(THREAD).sort("max_ns", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)
