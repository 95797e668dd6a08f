"""What a job asked for and did not use: memory, time; and memory that grows without end."""

from __future__ import annotations

import numpy as np

from sightline.core.units import format_bytes, format_hours
from sightline.subjects.jobs.job import Job
from sightline.subjects.jobs.judges._limits import LEAST_SAMPLES, is_shared, is_worth_judging
from sightline.subjects.jobs.verdict import Verdict, cannot_judge, clear, find_problem

# Job Defense Shield, excess-cpu-memory: 0.35 of what was asked for, and excessive-time: 0.2.
MEMORY_USED, TIME_USED = 0.35, 0.2
# Ours: what a node has for each core is no excess (2 to 8 GB on today's clusters).
LEAST_BYTES = 16e9
# Ours: a limit of an hour fits into any gap of a schedule.
LEAST_LIMIT_NS = 3600 * 10**9
# ClusterCockpit's parameters.json: memory_leak_slope_threshold, here of the final value.
GROWTH = 0.1
_STRAIGHT = 0.9  # ours: R² of a line through the values


def judge_memory(job: Job) -> Verdict | None:
    """Much more memory was asked for than was used."""
    rule, asked = "job-overasked-memory", job.row["memory_bytes"]
    if not is_worth_judging(job) or job.row["sharing"] == "none":
        return None  # nodes of its own have their memory, whatever was asked for
    if not asked:
        return cannot_judge(rule, "how much memory it asked for was not recorded")
    used = find_used_memory(job)
    if used is None:
        return cannot_judge(rule, "how much memory it used was not recorded (mem_used)")
    if asked < LEAST_BYTES or used / asked >= MEMORY_USED:
        return clear(rule)
    text = f"It used {format_bytes(used)} of {format_bytes(asked)} of memory that it asked for"
    enough = max(1, round(1.2 * used / 1e9))
    each = max(1, -(-enough // (job.count("nodes") or 1)))
    fix = (
        f"ask for  --mem={each}G  a node (a fifth more than it used): other jobs wait for the rest"
    )
    return find_problem(rule, text, 0.0, fix)


def find_used_memory(job: Job) -> float | None:
    """The most memory that a job held, in bytes, on all nodes."""
    stated = job.row["used_memory_bytes"]
    use = job.find_use("mem_used")
    if use is None or is_shared(job):
        return None if stated is None else float(stated)
    most = use.most[~np.isnan(use.most)]
    if not most.size:
        return None if stated is None else float(stated)
    # Of a mean over nodes alone, each may have held as much.
    whole = most.sum() if len(use.places) > 1 else most[0] * (job.count("nodes") or 1)
    return float(max(whole, stated or 0))


def judge_time(job: Job) -> Verdict | None:
    """Much more time was asked for than was needed."""
    rule, limit = "job-overasked-time", job.row["limit_ns"]
    if job.row["state"] != "completed" or not is_worth_judging(job):
        return None
    if not limit:
        return cannot_judge(rule, "how much time it asked for was not recorded")
    length = job.row["duration_ns"]
    if limit < LEAST_LIMIT_NS or length / limit >= TIME_USED:
        return clear(rule)
    text = f"It ran for {format_hours(length)} of {format_hours(limit)} that it asked for"
    fix = f"ask for  --time={_write_limit(1.5 * length / 1e9)}  : short jobs start earlier"
    return find_problem(rule, text, 0.0, fix)


def _write_limit(seconds: float) -> str:
    """As sbatch takes it: 02:30:00."""
    minutes = max(10, int(-(-seconds // 600)) * 10)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def judge_growth(job: Job) -> Verdict | None:
    """Memory grows along a line from the first quarter to the end."""
    rule = "job-growing-memory"
    if not is_worth_judging(job):
        return None
    use = job.find_use("mem_used")
    if use is None or use.values is None:
        return cannot_judge(rule, "memory over time was not recorded (mem_used)")
    if is_shared(job):
        return cannot_judge(rule, "other jobs may run on its nodes: their memory is not its own")
    whole = np.where(np.isnan(use.values), -np.inf, use.values).max(axis=0)
    whole = np.where(np.isneginf(whole), np.nan, whole)
    times = np.arange(whole.size) * use.step_s
    start = whole.size // 4
    known = ~np.isnan(whole)
    known[:start] = False
    if known.sum() < LEAST_SAMPLES:
        return cannot_judge(rule, "memory was sampled too few times to show a trend")
    t, v = times[known], whole[known]
    slope, base = np.polyfit(t, v, 1)
    fit = base + slope * t
    spread = float(((v - v.mean()) ** 2).sum())
    straight = 1 - float(((v - fit) ** 2).sum()) / spread if spread else 0.0
    grown = slope * (t[-1] - t[0])
    if straight < _STRAIGHT or grown < GROWTH * v[-1] or v[-1] <= 0:
        return clear(rule)
    text = (
        f"Memory of a node grows by {format_bytes(slope * 3600)} an hour, to {format_bytes(v[-1])}"
    )
    fix = (
        "find what is kept: lists of tensors with their graphs (use loss.item()), caches, "
        "workers that copy; until then save checkpoints before memory is full"
    )
    return find_problem(rule, text, 0.0, fix)
