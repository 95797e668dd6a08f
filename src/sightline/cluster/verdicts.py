"""What is kept of a job that ended: its row with its use, and what rules say of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX
from sightline.subjects.jobs.analyses.job_use import describe_use
from sightline.subjects.jobs.job import GPU, NODE, Job
from sightline.subjects.jobs.judging import judge_job
from sightline.subjects.jobs.verdict import Verdict, price_problem

# A job's footprint: the mean over time and places, or the most that any place had.
FOOTPRINT = {
    "cpu_load": NODE, "mem_used": NODE, "mem_bw": NODE, "flops_any": NODE, "ib_recv": NODE,
    "ib_xmit": NODE, "eth_recv": NODE, "eth_xmit": NODE, "file_read": NODE, "file_write": NODE,
    "acc_utilization": GPU, "acc_sm_active": GPU, "acc_mem_used": GPU, "acc_power": GPU,
}  # fmt: skip
_USE = {
    "gpu_hours": pl.Float64, "core_hours": pl.Float64, "gpu_used_pct": pl.Float64,
    "cpu_used_pct": pl.Float64, "memory_used_pct": pl.Float64, "time_used_pct": pl.Float64,
    "used_energy_j": pl.Float64, "detail": pl.String, "worst_rule": pl.String,
    "problems": pl.Int64, "wasted_gpu_hours": pl.Float64, "wasted_core_hours": pl.Float64,
    "wasted_energy_j": pl.Float64,
}  # fmt: skip
_OF_JOBS = {
    column.name: column.dtype
    for column in load_table("jobs").stored
    if column.name not in ("rank", "recording_id", "job_row_id", "cluster")
}
JOB_SCHEMA: dict[str, Any] = {
    "job_key": pl.String, **_OF_JOBS, "hosts": pl.List(pl.String), **_USE,
    **{f"mean_{name}": pl.Float64 for name in FOOTPRINT},
    **{f"most_{name}": pl.Float64 for name in FOOTPRINT},
}  # fmt: skip
PROBLEM_SCHEMA: dict[str, Any] = {
    "job_key": pl.String, "rule": pl.String, "judged": pl.Boolean, "text": pl.String,
    "lost_pct": pl.Float64, "gpu_hours": pl.Float64, "core_hours": pl.Float64,
    "energy_j": pl.Float64, "fix": pl.String, "evidence": pl.String,
}  # fmt: skip


def describe(key: str, job: Job) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A row of `JOB_SCHEMA`, and the rows of `PROBLEM_SCHEMA` that the job has."""
    verdicts = [verdict for verdict in judge_job(job) if verdict.holds is not False]
    rows = [_describe_verdict(key, job, verdict) for verdict in verdicts]
    found = sorted((row for row in rows if row["judged"]), key=lambda row: -row["lost_pct"])
    use = describe_use(job)
    own = {name: job.row.get(name) for name in _OF_JOBS}
    made = {
        **own,
        "job_key": key,
        "hosts": [node["host"] for node in job.nodes],
        **{name: use.get(name) for name in _USE if name in use},
        "used_energy_j": use["energy_j"],
        "worst_rule": found[0]["rule"] if found else None,
        "problems": len(found),
        "wasted_gpu_hours": found[0]["gpu_hours"] if found else 0.0,
        "wasted_core_hours": found[0]["core_hours"] if found else 0.0,
        "wasted_energy_j": found[0]["energy_j"] if found else None,
        **_measure_footprint(job),
    }
    return fit_numbers(made), [fit_numbers(row) for row in rows]


def fit_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without numbers that no column can hold, or that are none: of these nothing is known.

    One such number of an archive or a collector would hide all other jobs.
    """
    return {name: value if _fits(value) else None for name, value in row.items()}


def _fits(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= INT64_MAX


def _describe_verdict(key: str, job: Job, verdict: Verdict) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PROBLEM_SCHEMA)
    row |= {"job_key": key, "rule": verdict.rule, "judged": bool(verdict.holds)}
    row["text"] = verdict.text
    if verdict.holds:
        gpus, cores = price_problem(job, verdict)
        row |= {
            "lost_pct": 100 * verdict.lost,
            "gpu_hours": gpus,
            "core_hours": cores,
            "energy_j": verdict.energy_j,
            "fix": verdict.fix or None,
            "evidence": "; ".join(verdict.evidence) or None,
        }
    return row


def _measure_footprint(job: Job) -> dict[str, float | None]:
    """Of each metric the mean of a node or GPU, and the most that one had at a time."""
    found: dict[str, float | None] = {}
    for metric, scope in FOOTPRINT.items():
        use = job.find_use(metric, scope)
        mean = float("nan") if use is None else use.mean
        found[f"mean_{metric}"] = None if math.isnan(mean) else mean
        found[f"most_{metric}"] = None if use is None else use.peak
    return found


def read_use(row: Mapping[str, Any], metric: str) -> float | None:
    """The mean of a metric of a kept job; None where it was not recorded."""
    value = row.get(f"mean_{metric}")
    return None if value is None or not np.isfinite(value) else float(value)
