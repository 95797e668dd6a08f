"""Thresholds that several judges share, each with its source."""

from __future__ import annotations

import numpy as np

from sightline.subjects.jobs.job import Job

# ClusterCockpit's parameters.json: job_min_duration_seconds. Shorter jobs are starts and tests.
LEAST_S = 600.0
# Job Defense Shield, cancel-zero-gpu-jobs: a GPU at 0 %; nvidia-smi rounds up what is below 1.
IDLE_PCT = 1.0
# Ours: fewer samples say nothing about a course over time.
LEAST_SAMPLES = 10
_OVER = ("running", "pending", "suspended", "configuring", "completing", "requeued")


def is_worth_judging(job: Job) -> bool:
    """Whether a job ran long enough to say something about it."""
    return job.seconds >= LEAST_S and job.row["state"] != "pending"


def is_running(job: Job) -> bool:
    """Whether it runs still."""
    return job.row["state"] in _OVER


def find_cpu_share(job: Job) -> float | None:
    """How much of its processors a job used, 0 to 1 (above: more threads than processors).

    None where nothing says so, or only its nodes' load does and others run there, too.
    """
    each, nodes = find_cpus_per_node(job), job.count("nodes") or 1
    spent = job.row["cpu_time_ns"]
    if spent and each and job.count("cpus") and job.seconds:
        return float(spent) / 1e9 / (each * nodes * job.seconds)
    user = job.find_use("cpu_user")
    if user is not None and not np.isnan(user.mean) and not is_shared(job):
        return user.mean / 100
    load = job.find_use("cpu_load")
    if load is None or each is None or np.isnan(load.mean) or is_shared(job):
        return None
    return load.mean / each


def explain_missing_share(job: Job) -> str:
    """Why `find_cpu_share` does not know."""
    load = job.find_use("cpu_load")
    if is_shared(job) and (load is not None or job.find_use("cpu_user") is not None):
        return "other jobs may run on its nodes: what was recorded there is not its own"
    if load is not None:
        return "how many processors it was given is not known"
    return "neither the time nor the load of its processors was recorded (cpu_user, cpu_load)"


def find_cpus_per_node(job: Job) -> float | None:
    """Processors of a node: as given, and no more than its load is at most (`peak`): its cores."""
    cpus = job.count("cpus") / (job.count("nodes") or 1)
    peak = find_peak_load(job)
    return min(cpus or peak, peak) if peak else cpus or None


def find_peak_load(job: Job) -> float | None:
    """The largest load of a node that is usual, as its operators wrote it down."""
    peak = job.limits.get("cpu_load", {}).get("peak")
    return float(peak) if peak else None


def is_shared(job: Job) -> bool:
    """Whether others may run on its nodes, so that figures of a node are not its own."""
    return job.row["sharing"] in ("multi_user", "single_user")


def count_places(count: int, noun: str) -> str:
    """'3 GPUs', '1 node'."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
