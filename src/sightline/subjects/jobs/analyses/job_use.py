"""Each job: what it was given, how much of that it used, and what was wasted.

GPU hours are GPUs times time, core hours hardware threads times time. Shares are means over the
whole job and all of its nodes or GPUs; null where nothing says so. Wasted is what the costliest
problem took (`job_problems`): a lower bound, since two problems may take different hours.
"""

import math

import polars as pl

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    duration,
    join,
    make_empty,
    number,
    pct,
    real,
    text,
    time,
)
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.jobs.job import GPU, Job, list_jobs
from sightline.subjects.jobs.judges._limits import find_cpu_share
from sightline.subjects.jobs.judges.asked import find_used_memory
from sightline.subjects.jobs.verdict import measure_energy, measure_hours

_OF_JOB = (
    "rank", "recording_id", "job_row_id", "job_id", "cluster", "partition", "user", "project",
    "name", "application", "state", "start_ns", "duration_ns", "nodes", "cpus", "gpus",
)  # fmt: skip

ANALYSIS = Analysis(
    "job_use",
    "How much of what it was given did each job use?",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("job_id", "as its scheduler prints it"),
        text("cluster", "cluster"),
        text("partition", "partition"),
        text("user", "who owns it"),
        text("project", "account or project"),
        text("name", "its name"),
        text("application", "what its script starts"),
        text("state", "state"),
        time("start_ns", "when it began", required=False),
        duration("duration_ns", "how long it ran"),
        number("nodes", "nodes"),
        number("cpus", "hardware threads"),
        number("gpus", "GPUs"),
        real("gpu_hours", "GPU hours that it was given", "h"),
        real("core_hours", "core hours that it was given", "h"),
        pct("gpu_used_pct", "utilization of its GPUs"),
        pct("cpu_used_pct", "use of its processors; over 100 with more threads than these"),
        pct("memory_used_pct", "peak memory, as a share of what it asked for"),
        pct("time_used_pct", "run time, as a share of what it asked for"),
        real("energy_j", "energy, stated or from power", "J"),
        text("worst_rule", "the costliest problem; null without one"),
        number("problems", "problems that were found"),
        real("wasted_gpu_hours", "GPU hours that the costliest problem took", "h"),
        real("wasted_core_hours", "core hours that it took", "h"),
        real("wasted_energy_j", "energy that went into these", "J"),
        text("detail", "what is known of its use: series, means or none"),
    ),
    needs=("jobs",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per job."""
    rows = [describe_use(job) for job in list_jobs(run)]
    if not rows:
        return make_empty(ANALYSIS.columns)
    found = run.ask("job_problems").filter("judged")
    worst = (
        found.sort("lost_pct", descending=True, nulls_last=True, maintain_order=True)
        .group_by("job_row_id", maintain_order=True)
        .agg(
            worst_rule=pl.col("rule").first(),
            problems=pl.len().cast(pl.Int64),
            wasted_gpu_hours=pl.col("gpu_hours").first(),
            wasted_core_hours=pl.col("core_hours").first(),
            wasted_energy_j=pl.col("energy_j").first(),
        )
    )
    zeros = ("problems", "wasted_gpu_hours", "wasted_core_hours")
    return (
        pl.DataFrame(rows, infer_schema_length=None)
        .join(worst, on="job_row_id", how="left", maintain_order="left")
        .with_columns(pl.col(name).fill_null(0) for name in zeros)
        .select(pl.col(column.name).cast(column.dtype) for column in ANALYSIS.columns)
    )


def describe_use(job: Job) -> dict[str, object]:
    """What a job was given and used: the columns of this analysis but those on problems."""
    gpu_hours, core_hours = measure_hours(job)
    gpus = job.find_use("acc_utilization", GPU) if job.count("gpus") else None
    cpu = find_cpu_share(job)
    used, asked, limit = find_used_memory(job), job.row["memory_bytes"], job.row["limit_ns"]
    return {
        **{key: job.row[key] for key in _OF_JOB},
        "gpu_hours": gpu_hours,
        "core_hours": core_hours,
        "gpu_used_pct": None if gpus is None or math.isnan(gpus.mean) else gpus.mean,
        "cpu_used_pct": None if cpu is None else 100 * cpu,
        "memory_used_pct": 100 * used / asked if used and asked else None,
        "time_used_pct": 100 * job.row["duration_ns"] / limit
        if limit and job.row["duration_ns"]
        else None,
        "energy_j": measure_energy(job),
        "detail": "series" if job.has_series else "means" if job.uses else "none",
    }
