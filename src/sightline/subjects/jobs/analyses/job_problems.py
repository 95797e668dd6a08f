"""What is wrong with each job, what that costs, and what to do about it.

A row for each job and rule that found something, or could not look (`judged` is false, and `text`
says what is missing). Costs of one job overlap: its waste is the largest of them (`job_use`).
"""

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
from sightline.subjects.jobs.job import list_jobs
from sightline.subjects.jobs.judging import judge_job
from sightline.subjects.jobs.verdict import price_problem

ANALYSIS = Analysis(
    "job_problems",
    "What is wrong with each job, and what does that cost?",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("job_id", "as its scheduler prints it"),
        text("rule", "what was looked for"),
        flag("judged", "false where what it needs was not recorded"),
        text("text", "what is wrong, or what is missing"),
        pct("lost_pct", "share of what the job was given that was lost; 0 where others pay"),
        real("gpu_hours", "GPU hours that were lost, of a job with GPUs", "h"),
        real("core_hours", "core hours that were lost, of a job without", "h"),
        real("energy_j", "energy that went into it, where its power is known", "J"),
        text("fix", "the owner's next step"),
        text("evidence", "where it is seen"),
    ),
    needs=("jobs",),
    notes=("Costs of one job overlap; a job's waste is the largest of them.",),
)

_OF_JOB = ("rank", "recording_id", "job_row_id", "job_id")


def run(run: Run) -> pl.DataFrame:
    """One row for each job and rule with something to say."""
    rows = []
    for job in list_jobs(run):
        for verdict in judge_job(job):
            if verdict.holds is False:
                continue
            gpu_hours, core_hours = price_problem(job, verdict)
            rows.append(
                {
                    **{key: job.row[key] for key in _OF_JOB},
                    "rule": verdict.rule,
                    "judged": bool(verdict.holds),
                    "text": verdict.text,
                    "lost_pct": 100 * verdict.lost if verdict.holds else None,
                    "gpu_hours": gpu_hours if verdict.holds else None,
                    "core_hours": core_hours if verdict.holds else None,
                    "energy_j": verdict.energy_j,
                    "fix": verdict.fix or None,
                    "evidence": "; ".join(verdict.evidence) or None,
                }
            )
    if not rows:
        return make_empty(ANALYSIS.columns)
    schema = {column.name: column.dtype for column in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema, orient="row")
