"""How often threads moved from one CPU core to another."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import name_threads
from sightline.timeline.sleeps import list_states
from sightline.timeline.thread_states import THREAD

ANALYSIS = Analysis(
    "thread_migrations",
    "How often did each CPU thread move to another CPU core?",
    (
        RANK,
        number("pid", "process id"),
        number("tid", "thread id"),
        text("thread_name", "thread name"),
        number("runs", "times that it was put on a CPU core"),
        number("migrations", "of these, on a core other than the time before"),
        number("cpus", "CPU cores that it ran on"),
        duration("running_ns", "it ran"),
        real("migrations_per_s", "migrations per second of running", "1/s"),
    ),
    needs=("sched_events",),
    notes=("What a move costs is not recorded: caches and pages of the old core's NUMA node.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per thread, the most migrations first."""
    ran = list_states(run).filter(pl.col("state") == "running", pl.col("cpu").is_not_null())
    moved = (pl.col("cpu") != pl.col("cpu").shift(1)).fill_null(value=False)
    found = ran.group_by(THREAD, maintain_order=True).agg(
        pl.col("pid").drop_nulls().last(),
        runs=pl.len().cast(pl.Int64),
        migrations=moved.sum().cast(pl.Int64),
        cpus=pl.col("cpu").n_unique().cast(pl.Int64),
        running_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
    )
    per_s = 1e9 * pl.col("migrations") / pl.col("running_ns")
    found = name_threads(found, run, "tid", "thread_name").with_columns(
        migrations_per_s=pl.when(pl.col("running_ns") > 0).then(per_s)
    )
    order = found.sort(THREAD).sort("migrations", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)
