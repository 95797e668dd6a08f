"""What the operating system counted for the main thread and its process while steps ran."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.step_usage import sum_usage

ANALYSIS = Analysis(
    "step_usage",
    "Did the main thread run, wait for a CPU, or sleep?",
    (
        RANK,
        number("steps", "marked steps that were counted"),
        duration("length_ns", "their length: the next three columns add up to it"),
        duration("running_ns", "the main thread ran on a CPU"),
        duration(
            "queued_ns",
            "it was ready to run but had no CPU; null where the kernel does not report it",
        ),
        duration("asleep_ns", "it slept: for data, a lock, a disk, another process or thread"),
        number("sleeps", "how often the main thread went to sleep"),
        number("preemptions", "how often it was preempted"),
        pct("running_pct", "% of the length in which it ran"),
        pct("queued_pct", "% of the length in which it had no CPU"),
        pct("asleep_pct", "% of the length in which it slept"),
        real("cpus", "CPUs that all threads of the process kept busy on average"),
        number("usable_cpus", "CPUs that the process may use"),
        number("torch_threads", "threads with which PyTorch computes an operator"),
        duration("kernel_ns", "CPU time of all threads inside the kernel, by its sampled split"),
        number("faults", "page faults of the process"),
        number("disk_operations", "blocks that the process read from or wrote to disks"),
        text("counted", "which steps: without the recording of operators, or all", required=True),
    ),
    needs=("counters",),
    notes=(
        "`sightline run` records these counters at the ends of steps (sl.step(), or the first "
        "torch optimizer); the time up to the end of the first step is left out.",
        "With CONFIG_TICK_CPU_ACCOUNTING kernel_ns is a share of sampled ticks, not a measurement.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank."""
    counted = pl.when(pl.col("recorded")).then(pl.lit("all")).otherwise(pl.lit("unrecorded"))
    return sum_usage(run).select(
        *(c.name for c in ANALYSIS.columns if c.name != "counted"), counted=counted
    )
