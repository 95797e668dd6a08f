"""What is wrong with each job, what that costs, and what to do about it.

A row for each job and rule that found something, or could not look (`judged` is false, and `text`
says what is missing). Costs of one job overlap: its waste is the largest of them (`job_use`).
"""

from typing import Any

import polars as pl

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    flag,
    join,
    make_empty,
    pct,
    real,
    text,
)
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.jobs.job import Job, list_jobs
from sightline.subjects.jobs.judging import judge_job
from sightline.subjects.jobs.verdict import Verdict, price_problem

ANALYSIS = Analysis(
    "job_problems",
    "What is wrong with each job, and what does that cost?",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("job_id", "as its scheduler prints it"),
        text("rule", "what was looked for"),
        flag("judged", "false where the data that it needs was not recorded"),
        text("text", "what is wrong, or what is missing"),
        pct("lost_pct", "lost share of the job's allocation; 0 where others pay"),
        real("gpu_hours", "GPU hours that were lost, of a job with GPUs", "h"),
        real("core_hours", "core hours that were lost, of a job without", "h"),
        real("energy_j", "energy that went into it, where its power is known", "J"),
        text("fix", "the owner's next step"),
        text("evidence", "where it is seen"),
    ),
    needs=("jobs",),
    notes=("Costs of one job overlap; a job's waste is the largest of them.",),
    worst="lost_pct",
)

_OF_JOB = ("rank", "recording_id", "job_row_id", "job_id")


def run(run: Run) -> pl.DataFrame:
    """One row for each job and rule with something to say."""
    rows: list[tuple[Any, ...]] = []
    for job in list_jobs(run):
        about = tuple(job.row[key] for key in _OF_JOB)
        rows += [(*about, *_describe(job, v)) for v in judge_job(job) if v.holds is not False]
    if not rows:
        return make_empty(ANALYSIS.columns)
    schema = {column.name: column.dtype for column in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _describe(job: Job, verdict: Verdict) -> tuple[Any, ...]:
    """What a verdict says and costs, in the order of the columns behind those of the job."""
    if not verdict.holds:  # as of most jobs and rules where only accounting is there
        return (verdict.rule, False, verdict.text, None, None, None, None, None, None)
    return (
        verdict.rule,
        True,
        verdict.text,
        100 * verdict.lost,
        *price_problem(job, verdict),
        verdict.energy_j,
        verdict.fix or None,
        "; ".join(verdict.evidence) or None,
    )
