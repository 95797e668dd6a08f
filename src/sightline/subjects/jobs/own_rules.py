"""Rules of one's own about jobs, in the forms that `findings --rules` reads (own-rules.md).

The engine is `diagnosis/custom`; here are its facts of a job. A metric is called by its name in any
dialect (core/job_metrics.py), and is in the units that these rules count in: GB, GF/s. `avg` is of
each node, as ClusterCockpit has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from sightline.core.job_metrics import METRICS, find_job_metric
from sightline.core.model.run import Run
from sightline.diagnosis.custom.evaluate import evaluate, fill_text
from sightline.diagnosis.custom.forms import OwnRule
from sightline.subjects.jobs.analyses.job_problems import ANALYSIS
from sightline.subjects.jobs.job import GPU, NODE, Job, Use, list_jobs
from sightline.subjects.jobs.judges._limits import find_cpu_share
from sightline.subjects.jobs.judges.asked import find_used_memory

_GB = 1e9
_SAMPLES = 10_000  # as of other metrics that rules ask for


def ask_own_rules(run: Run, rules: Sequence[OwnRule]) -> pl.DataFrame:
    """What the rules say of each job: rows as those of the analysis `job_problems`."""
    rows = [row for job in list_jobs(run) for row in judge_job(job, rules)]
    schema = {column.name: column.dtype for column in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema, orient="row")


def judge_job(job: Job, rules: Sequence[OwnRule]) -> Iterator[dict[str, Any]]:
    """What the rules say of one job: rows without those that do not hold."""
    for rule in rules:
        outcome = evaluate(rule, list_facts(job, rule.metrics))
        if outcome.holds is False:
            continue
        holds = outcome.holds is True
        text = fill_text(rule.hint, outcome.names) or rule.name if holds else outcome.reason
        yield {
            **{key: job.row[key] for key in ("rank", "recording_id", "job_row_id", "job_id")},
            "rule": rule.tag,
            "judged": holds,
            "text": text,
            "lost_pct": 0.0 if holds else None,
            "gpu_hours": 0.0 if holds else None,
            "core_hours": 0.0 if holds else None,
            "energy_j": None,
            "fix": rule.texts.get("fix"),
            "evidence": None,
        }


def list_facts(job: Job, metrics: Sequence[str]) -> dict[str, Any]:
    """What rules may name of a job: its metrics, `job`, and `run`."""
    facts: dict[str, Any] = {
        name: found for name in metrics if (found := _describe(job, name)) is not None
    }
    row, share, used = job.row, find_cpu_share(job), find_used_memory(job)
    known = {
        "shared": row["sharing"],
        "duration": job.seconds or None,
        "walltime": row["limit_ns"] and row["limit_ns"] / 1e9,
        "numCores": row["cpus"],
        "numHwthreads": row["cpus"],
        "numNodes": row["nodes"],
        "numAcc": row["gpus"] or 0,
        "jobState": row["state"],
        "user": row["user"],
        "cluster": row["cluster"],
        "cpuEfficiency": None if share is None else 100 * share,
        "requestedMemory": row["memory_bytes"] and row["memory_bytes"] / _GB,
        "usedMemory": None if used is None else used / _GB,
        "project": row["project"],
        "partition": row["partition"],
    }
    facts["job"] = {
        k: float(v) if isinstance(v, int) else v for k, v in known.items() if v is not None
    }
    facts["run"] = {"window_ns": job.seconds * 1e9}
    return facts


def _describe(job: Job, given: str) -> dict[str, Any] | None:
    """Statistics of a metric over time and places, and what is normal of it."""
    name = find_job_metric(given)
    scope = GPU if name.startswith("acc_") else NODE
    use = job.find_use(name, scope)
    if use is None or np.isnan(use.mean):
        return None
    per = METRICS[name].per if name in METRICS else 1.0
    found: dict[str, Any] = {"avg": use.mean / per, "mean": use.mean / per}
    for key, values, fold in (("min", use.least, np.nanmin), ("max", use.most, np.nanmax)):
        if not np.isnan(values).all():
            found[key] = float(fold(values)) / per
    found |= _describe_series(use, per)
    peaks = use.avg if np.isnan(use.most).all() else use.most
    found["idle"] = float((peaks[~np.isnan(peaks)] <= 0).sum())
    limits = job.limits.get(name, {})
    known = {key: value / per for key, value in limits.items() if value is not None}
    return found | ({"limits": known} if known else {})


def _describe_series(use: Use, per: float) -> dict[str, Any]:
    """What only a series has: its values over places, their spread and course."""
    if use.values is None:
        return {}
    seen = (~np.isnan(use.values)).sum(axis=0)
    over = np.nansum(use.values, axis=0)[seen > 0] / seen[seen > 0] / per
    if not over.size:
        return {}
    thinned = over[:: max(1, -(-over.size // _SAMPLES))]
    return {
        "data": tuple(float(v) for v in thinned),
        "median": float(np.median(over)),
        "std": float(over.std()),
        "sum": float(over.sum()),
        "count": float(over.size),
        "first": float(over[0]),
        "last": float(over[-1]),
    }
