"""Processors of a job: too many for it, too little load, too much, or unequal over nodes, cores."""

from __future__ import annotations

import numpy as np

from sightline.subjects.jobs.job import Job, Use
from sightline.subjects.jobs.judges._limits import (
    explain_missing_share,
    find_cpu_share,
    find_cpus_per_node,
    find_peak_load,
    is_shared,
    is_worth_judging,
)
from sightline.subjects.jobs.verdict import Verdict, cannot_judge, clear, find_problem

# Jobstats paints a CPU efficiency below 65 % red.
LOW = 0.65
# ClusterCockpit's parameters.json: excessivecpuload_threshold_factor.
HIGH = 1.2
# Job Defense Shield, serial-allocating-multiple: one core's work, give or take 15 %.
SERIAL = 1.15
# Ours: a thread for each core of two is half of the hardware threads, give or take the start.
_HALF = 0.05
# ClusterCockpit's node_load_imbalance_threshold_factor, of the largest; cores of a node also run
# its system, and get twice that.
UNEQUAL = {"nodes": 0.1, "cores": 0.2}


def judge_serial(job: Job) -> Verdict | None:
    """One core does all of it, while more were given."""
    rule, cpus = "job-serial", job.count("cpus")
    if cpus < 2 or job.count("gpus") or not is_worth_judging(job):
        return None
    share = find_cpu_share(job)
    if share is None:
        return cannot_judge(rule, explain_missing_share(job))
    cores = share * cpus
    if not 0.5 <= cores <= SERIAL:
        return clear(rule)
    text = f"The program is serial: it used {cores:.1f} of {cpus} cores"
    fix = "ask for one core, or start it in parallel: srun -n, OMP_NUM_THREADS, several inputs"
    return find_problem(rule, text, 1 - min(1.0, cores) / cpus, fix)


def judge_low(job: Job) -> Verdict | None:
    """The processors have little to do. Of jobs with GPUs, they need not have."""
    rule = "job-low-cpu-load"
    if job.count("gpus") or not is_worth_judging(job):
        return None
    share = find_cpu_share(job)
    if share is None:
        return cannot_judge(rule, explain_missing_share(job))
    cpus = job.count("cpus")
    if share >= LOW or (cpus > 1 and 0.5 <= share * cpus <= SERIAL):
        return clear(rule)
    if abs(share - 0.5) < _HALF and find_peak_load(job) is None:
        return cannot_judge(
            rule, "half of its hardware threads were busy: of cores with two threads, all of them"
        )
    text = f"The processors were busy for {100 * share:.0f} % of the time"
    fix = (
        "ask for as many cores as the program has threads (OMP_NUM_THREADS, srun -c), and check "
        "that they are not pinned to one core"
    )
    return find_problem(rule, text, 1 - share, fix)


def judge_high(job: Job) -> Verdict | None:
    """More threads want to run than there are processors."""
    rule = "job-excessive-load"
    if not is_worth_judging(job):
        return None
    load, each = job.find_use("cpu_load"), find_cpus_per_node(job)
    if load is None or np.isnan(load.mean):
        return cannot_judge(rule, "the load of its nodes was not recorded (cpu_load)")
    if each is None:
        return cannot_judge(rule, explain_missing_share(job))
    if is_shared(job):
        return cannot_judge(rule, "other jobs may run on its nodes: their load is not its own")
    most = float(np.nanmax(load.avg))
    if most <= HIGH * each:
        return clear(rule)
    text = f"{most:.0f} threads want to run on the {each:.0f} processors of a node"
    fix = (
        "start fewer: OMP_NUM_THREADS=1 with a process for each core; workers × threads of a "
        "DataLoader, BLAS and OpenMP multiply"
    )
    return find_problem(rule, text, 0.0, fix)


def judge_unequal(job: Job) -> Verdict | None:
    """Some nodes, or some cores of busy nodes, have less to do than others."""
    rule = "job-unequal-load"
    if not is_worth_judging(job) or job.count("gpus"):
        return None
    if is_shared(job):
        return cannot_judge(rule, "other jobs may run on its nodes: their load is not its own")
    nodes = job.find_use("cpu_load") or job.find_use("cpu_user")
    cores = job.find_parts("cpu_user") or job.find_parts("cpu_load")
    is_by_node = nodes is not None and len(nodes.places) > 1
    if not is_by_node and cores is None:
        if job.count("nodes") == 1 and nodes is not None:
            return None  # one node, whose cores nobody looked at
        return cannot_judge(rule, "the load of each node was not recorded (cpu_load)")
    for use, noun in ((nodes if is_by_node else None, "nodes"), (cores, "cores")):
        spread = None if use is None else _measure_spread(use)
        # Of cores, only where their node is busy: else it has little load, not an unequal one.
        if spread is None or (noun == "cores" and spread[2] < LOW * spread[1]):
            continue
        least, most, mean = spread
        lost = 1 - mean / most
        if lost >= UNEQUAL[noun]:
            text = f"The {noun} have unequal loads: from {least:.1f} to {most:.1f}"
            fix = "divide the work into equal or smaller parts, and see that each rank has a core"
            return find_problem(rule, text, lost, fix)
    return clear(rule)


def _measure_spread(use: Use) -> tuple[float, float, float] | None:
    """Least, most and mean over places."""
    known = use.avg[~np.isnan(use.avg)]
    if known.size < 2 or known.max() <= 0:
        return None
    return float(known.min()), float(known.max()), float(known.mean())
