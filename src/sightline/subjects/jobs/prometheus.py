"""What a Prometheus server knows of jobs over time, as rows of `job_series`.

Any of the exporters that sites run for jobs: Jobstats' (cgroup_exporter with `jobid`, its GPU
exporter with nvidia_gpu_jobId) and dcgm-exporter's with HPC jobs (`hpc_job`). VictoriaMetrics and
Thanos answer the same questions. https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import numpy as np
import polars as pl

from sightline.core.job_metrics import EXPORTED, METRICS
from sightline.core.model.run import Run
from sightline.core.model.tables import load_table
from sightline.errors import InputError
from sightline.subjects.jobs.job import GPU, NODE, Job, list_jobs
from sightline.subjects.jobs.judges._limits import is_worth_judging

# Prometheus answers with 11,000 points of a series at most (web/api/v1); scrapes of exporters are
# 15 to 60 s apart.
_MOST_POINTS, _LEAST_STEP_S = 10_000, 30
_MOST_SERIES = 20_000
_SECOND = 10**9
# Ours: nine questions each, which a server answers in some milliseconds: half a minute.
MOST_JOBS = 500

Fetch = Callable[[str], bytes]
RunT = TypeVar("RunT", bound=Run)


class Question(NamedTuple):
    """A metric of a job: the query with its number in it, and what values are multiplied by."""

    metric: str
    scope: str
    query: str
    scale: float = 1.0


_OF_CGROUP = '{jobid="%d",step="",task=""}'
_OF_GPU = "%s and on(instance,uuid) nvidia_gpu_jobId == %%d"


def _ask_gpus(exported: str, query: str) -> Question:
    metric, scale = EXPORTED[exported]
    return Question(metric, GPU, query % exported, scale)


_OF_DCGM = '%s{hpc_job="%%d"}'
# In this order: of a metric that several exporters have, the first that answers counts.
QUESTIONS = (
    Question("cpu_load", NODE, f"rate(cgroup_cpu_total_seconds{_OF_CGROUP}[3m])"),
    Question("mem_used", NODE, f"cgroup_memory_rss_bytes{_OF_CGROUP}"),
    _ask_gpus("nvidia_gpu_duty_cycle", _OF_GPU),
    _ask_gpus("DCGM_FI_DEV_GPU_UTIL", _OF_DCGM),
    _ask_gpus("DCGM_FI_PROF_SM_ACTIVE", _OF_DCGM),
    _ask_gpus("nvidia_gpu_memory_used_bytes", _OF_GPU),
    _ask_gpus("DCGM_FI_DEV_FB_USED", _OF_DCGM),
    _ask_gpus("nvidia_gpu_power_usage_milliwatts", _OF_GPU),
    _ask_gpus("DCGM_FI_DEV_POWER_USAGE", _OF_DCGM),
)


def add_series(run: RunT, fetch: Fetch, wanted: Callable[[Job], bool]) -> tuple[RunT, int, int]:
    """The run with what the server knows of its jobs, of how many it was asked, and of all.

    Jobs that ran long enough to be judged, the largest first. `fetch` gets a path with its query.
    Raises InputError where the server fails.
    """
    jobs = [job for job in list_jobs(run) if wanted(job) and _can_be_asked(job)]
    jobs.sort(key=lambda job: -job.seconds * (job.count("gpus") or job.count("cpus") / 100))
    frames = [run.table("job_series")]
    for job in jobs[:MOST_JOBS]:
        frames += _ask_job(job, fetch)
    made = type(run)(run.parts, run.window, {"job_series": pl.concat(frames)})
    return made, min(len(jobs), MOST_JOBS), len(jobs)


def _can_be_asked(job: Job) -> bool:
    return bool(job.row["raw_job_id"] and job.row["start_ns"]) and is_worth_judging(job)


def _ask_job(job: Job, fetch: Fetch) -> Iterator[pl.DataFrame]:
    """Rows of each metric that the server has and no source had over time."""
    known = {key for key, use in job.uses.items() if use.values is not None}
    begin = job.row["start_ns"] // _SECOND
    end = begin + math.ceil(job.seconds)
    step = max(_LEAST_STEP_S, math.ceil(job.seconds / _MOST_POINTS))
    for question in QUESTIONS:
        if (question.metric, question.scope) in known:
            continue
        text = question.query % job.row["raw_job_id"]
        query = urlencode({"query": text, "start": begin, "end": end, "step": step})
        answer = fetch(f"/api/v1/query_range?{query}")
        rows = list(_read_matrix(job, answer, question, (begin, end, step)))
        if rows:
            known.add((question.metric, question.scope))
            yield from rows


def _read_matrix(
    job: Job, data: bytes, question: Question, clock: tuple[int, int, int]
) -> Iterator[pl.DataFrame]:
    """The series of an answer, each on one grid of times. Raises InputError."""
    begin, end, step = clock
    count = (end - begin) // step + 1
    for labels, pairs in _list_series(data):
        values = np.full(count, np.nan)
        for at, text in pairs:
            place = round((at - begin) / step)
            if 0 <= place < count:
                values[place] = _read_value(text) * question.scale
        if np.isnan(values).all():
            continue
        host, element = name_place(labels, question.scope)
        schema = load_table("job_series").schema
        yield pl.DataFrame(
            {
                "time_ns": (begin + step * np.arange(count)) * _SECOND,
                "value": pl.Series(values).fill_nan(None),
            }
        ).select(
            pl.lit(value).cast(schema[name]).alias(name)
            if name not in ("time_ns", "value")
            else pl.col(name).cast(schema[name])
            for name, value in {
                "rank": job.row["rank"],
                "recording_id": job.row["recording_id"],
                "job_row_id": job.row["job_row_id"],
                "metric": question.metric,
                "unit": METRICS[question.metric].unit or None,
                "host": host,
                "scope": question.scope,
                "element": element,
                "time_ns": None,
                "step_ns": step * _SECOND,
                "value": None,
            }.items()
        )


def _list_series(data: bytes) -> Iterator[tuple[dict[str, Any], list[tuple[float, Any]]]]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError("Prometheus' answer is not JSON", why=str(error)) from error
    if not isinstance(answer, dict) or answer.get("status") != "success":
        why = answer.get("error") if isinstance(answer, dict) else None
        raise InputError("Prometheus refuses a query", why=str(why)[:300] if why else None)
    held = answer.get("data")
    result = held.get("result") if isinstance(held, dict) else None
    for one in (result if isinstance(result, list) else [])[:_MOST_SERIES]:
        labels = one.get("metric") if isinstance(one, dict) else None
        values = one.get("values") if isinstance(one, dict) else None
        if isinstance(labels, dict) and isinstance(values, list):
            pairs = [p for p in values[: _MOST_POINTS + 2] if isinstance(p, list) and len(p) == 2]
            yield labels, [(float(at), v) for at, v in pairs if isinstance(at, int | float)]


def _read_value(text: object) -> float:
    try:
        number = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def name_place(labels: Mapping[str, Any], scope: str) -> tuple[str | None, str | None]:
    """Host and GPU by their labels: 'gpu17:9445' is the host gpu17."""
    named = (labels.get(key) for key in ("Hostname", "hostname", "host", "instance"))
    host = next(filter(None, named), None)
    name = re.sub(r":\d+$", "", str(host))[:200] if host else None
    if scope == NODE:
        return name, None
    gpu = next((labels[k] for k in ("minor_number", "gpu", "ordinal", "uuid") if k in labels), None)
    return name, None if gpu is None else str(gpu)[:100]
