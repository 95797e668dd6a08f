"""What a judge says of a job, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sightline.subjects.jobs.job import GPU, Job


@dataclass(frozen=True)
class Verdict:
    """Of one rule and one job: a problem (`holds`), none, or why it could not be judged (None).

    `lost` is the share, 0 to 1, of what the job was given that the problem took; 0 where it harms
    others or later jobs, and takes no time. `energy_j` is what was measured to go into it, in
    joules: idle hardware draws less than the job's mean, so it is not a share of that.
    """

    rule: str
    holds: bool | None
    text: str = ""
    lost: float = 0.0
    fix: str = ""
    evidence: tuple[str, ...] = ()
    energy_j: float | None = None


def find_problem(
    rule: str,
    text: str,
    lost: float,
    fix: str,
    evidence: tuple[str, ...] = (),
    energy_j: float | None = None,
) -> Verdict:
    """A problem; its share is kept between 0 and 1."""
    share = 0.0 if math.isnan(lost) else min(max(lost, 0.0), 1.0)
    return Verdict(rule, True, text, share, fix, evidence, energy_j)


def price_problem(job: Job, verdict: Verdict) -> tuple[float, float]:
    """GPU hours and core hours that a problem took: of a job with GPUs the former alone."""
    gpus, cores = measure_hours(job)
    return (gpus * verdict.lost, 0.0) if job.count("gpus") else (0.0, cores * verdict.lost)


def clear(rule: str) -> Verdict:
    """No problem: it was looked for."""
    return Verdict(rule, False)


def cannot_judge(rule: str, missing: str) -> Verdict:
    """Why it could not be looked for: what is missing."""
    return Verdict(rule, None, missing)


def measure_hours(job: Job) -> tuple[float, float]:
    """GPU hours and core hours that a job was given; 0 where its length or size is not known."""
    hours = job.seconds / 3600
    return job.count("gpus") * hours, job.count("cpus") * hours


def measure_energy(job: Job) -> float | None:
    """Joules that a job took: as stated, else mean power times time; None where neither is known.

    Power of GPUs, processors and memory adds up; that of the node has all of them in it.
    """
    if job.row["energy_j"]:
        return float(job.row["energy_j"])
    if not job.seconds:
        return None
    node = job.find_use("node_power")
    nodes = job.count("nodes") or 1
    if node is not None and not math.isnan(node.mean):
        return node.mean * nodes * job.seconds
    parts = [
        (job.find_use("acc_power", GPU), job.count("gpus")),
        (job.find_use("cpu_power"), nodes),
        (job.find_use("mem_power"), nodes),
    ]
    watts = [u.mean * n for u, n in parts if u is not None and n and not math.isnan(u.mean)]
    return sum(watts) * job.seconds if watts else None
