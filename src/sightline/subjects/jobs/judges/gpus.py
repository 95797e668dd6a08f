"""GPUs of a job: some without any work, all with little, some with less than others."""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.subjects.jobs.job import GPU, Job, Use
from sightline.subjects.jobs.judges._limits import (
    IDLE_PCT,
    LEAST_SAMPLES,
    count_places,
    is_worth_judging,
)
from sightline.subjects.jobs.verdict import Verdict, cannot_judge, clear, find_problem

# Job Defense Shield, low-gpu-efficiency: eff_thres_pct 25; Jobstats paints below 25 black.
LITTLE_PCT = 25.0
# ClusterCockpit's parameters have 10 % for nodes and cores; ours is twice that, as the load of
# GPUs follows the lengths of what they compute.
UNEQUAL = 0.2
# Ours. Sustained clocks of data center GPUs lie some 10 % below their highest (H100 SXM: 1,755 of
# 1,980 MHz), and a GPU that computes little may rest between two samples.
SLOW_CLOCK, _BUSY_PCT = 0.85, 50.0
_LEAST_SLOW = 0.1  # of the time that a GPU is busy
_MISSING = "the utilization of its GPUs was not recorded (acc_utilization)"


def judge_idle(job: Job) -> Verdict | None:
    """GPUs that had no work from the first sample to the last."""
    rule, gpus = "job-idle-gpus", job.count("gpus")
    if not gpus or not is_worth_judging(job):
        return None
    use = job.find_use("acc_utilization", GPU)
    if use is None or np.isnan(use.mean):
        return cannot_judge(rule, _MISSING)
    if len(use.places) < gpus and use.places[0] == (None, None):
        # A mean over all GPUs: that all idle is known, which of them is not.
        idle = gpus if use.mean <= IDLE_PCT else 0
    else:
        idle = min(gpus, int(np.sum(_find_idle(use))))
    if not idle:
        return clear(rule)
    whole = idle == gpus
    every = {1: "Its GPU", 2: "Both GPUs"}.get(gpus, f"All {gpus} GPUs")
    text = f"{every if whole else f'{idle} of {gpus} GPUs'} did nothing"
    fix = (
        "ask for no GPU, or see why the program does not find it: torch.cuda.is_available(), "
        "CUDA_VISIBLE_DEVICES, a CPU build"
        if whole
        else f"ask for {count_places(gpus - idle, 'GPU')}, or start a process for each: torchrun "
        "--nproc-per-node, srun --ntasks"
    )
    marked = zip(use.places, _find_idle(use), strict=True)
    shown = [_name(place) for place, is_idle in marked if is_idle and place != (None, None)]
    where = ", ".join([*shown[:8], *(["..."] if len(shown) > 8 else [])])
    evidence = (f"at {IDLE_PCT:.0f} % or less on average: {where}",) if where else ()
    return find_problem(
        rule, text, idle / gpus, fix, evidence, _measure_idle_energy(job, use, idle)
    )


def _measure_idle_energy(job: Job, use: Use, idle: int) -> float | None:
    """Joules of the idle GPUs: their own power, where it is known of each or all are idle."""
    power = job.find_use("acc_power", GPU)
    if power is None or np.isnan(power.mean):
        return None
    if power.places == use.places and len(use.places) > 1:
        return float(np.nansum(power.avg[_find_idle(use)])) * job.seconds
    return power.mean * idle * job.seconds if idle == job.count("gpus") else None


def judge_little(job: Job) -> Verdict | None:
    """The GPUs that had work were busy for little of the time."""
    rule = "job-underused-gpus"
    if not job.count("gpus") or not is_worth_judging(job):
        return None
    use = job.find_use("acc_utilization", GPU)
    if use is None or np.isnan(use.mean):
        return cannot_judge(rule, _MISSING)
    true = job.find_use("acc_sm_active", GPU)
    busy = use.avg[~_find_idle(use)]
    if not busy.size:
        return clear(rule)  # idle altogether, which is another problem
    share, what = float(np.nanmean(busy)), "busy"
    if true is not None and not np.isnan(true.mean) and true.mean < share:
        share, what = true.mean, "computing (SM active)"
    if share >= LITTLE_PCT:
        return clear(rule)
    text = f"The GPUs were {what} for {share:.0f} % of the time"
    if use.places == ((None, None),) and job.count("gpus") > 1:
        text += " on average, and some may have done nothing"
    fix = (
        "find what the GPU waits for while it runs:  sightline attach PID --for 2s  on its node; "
        "then more workers for the input, larger batches, or several such programs on one GPU"
    )
    lost = (1 - share / 100) * busy.size / len(use.places)
    return find_problem(rule, text, lost, fix)


def judge_unequal(job: Job) -> Verdict | None:
    """Some GPUs of those with work have much less of it."""
    rule = "job-unequal-gpus"
    if job.count("gpus") < 2 or not is_worth_judging(job):
        return None
    use = job.find_use("acc_utilization", GPU)
    if use is None or np.isnan(use.mean) or len(use.places) < 2:
        return cannot_judge(rule, "the utilization of each GPU was not recorded (acc_utilization)")
    busy = use.avg[~_find_idle(use)]
    if busy.size < 2 or float(np.nanmax(busy)) < LITTLE_PCT:
        return clear(rule)
    lost = 1 - float(np.nanmean(busy)) / float(np.nanmax(busy))
    if lost < UNEQUAL:
        return clear(rule)
    text = f"GPUs have unequal work: from {np.nanmin(busy):.0f} to {np.nanmax(busy):.0f} % busy"
    fix = "give each rank the same amount of work: batch size, stages, shards of the data"
    return find_problem(rule, text, lost * busy.size / len(use.places), fix)


def judge_clocks(job: Job) -> Verdict | None:
    """GPUs that were busy at a lower clock than they, or the others, had at other times."""
    rule = "job-slow-clocks"
    if not job.count("gpus") or not is_worth_judging(job):
        return None
    clock, use = job.find_use("acc_clock", GPU), job.find_use("acc_utilization", GPU)
    if clock is None or clock.values is None or np.isnan(clock.mean):
        return cannot_judge(rule, "the clocks of its GPUs over time were not recorded (acc_clock)")
    if use is None or use.values is None or use.values.shape != clock.values.shape:
        return cannot_judge(rule, "what its GPUs did over time was not recorded (acc_utilization)")
    seen = np.isfinite(use.values) & np.isfinite(clock.values)
    busy = seen & (np.nan_to_num(use.values) >= _BUSY_PCT)
    if busy.sum() < LEAST_SAMPLES:
        return clear(rule)
    top = float(np.percentile(clock.values[busy], 95))
    slow = busy & (np.nan_to_num(clock.values) < SLOW_CLOCK * top)
    each = slow.sum(axis=1) / np.maximum(busy.sum(axis=1), 1)
    if top <= 0 or each.max() < _LEAST_SLOW:
        return clear(rule)
    held = slow & (each >= _LEAST_SLOW)[:, None]
    lost = float(np.sum(1 - clock.values[held] / top)) / max(int(seen.sum()), 1)
    low = float(np.mean(clock.values[held])) / 1e6
    shown = [_name(place) for place, share in zip(clock.places, each, strict=True)
             if share >= _LEAST_SLOW]  # fmt: skip
    text = (
        f"{count_places(len(shown), 'GPU')} of {job.count('gpus')} ran at {low:,.0f} instead of "
        f"{top / 1e6:,.0f} MHz for {100 * each.max():.0f} % of the time they were busy"
    )
    where = ", ".join([*shown[:8], *(["..."] if len(shown) > 8 else [])])
    fix = (
        "ask why on the node:  nvidia-smi -q -d PERFORMANCE,CLOCK  (heat, a power limit, a brake), "
        "and tell the operators"
    )
    return find_problem(rule, text, lost, fix, (f"below {SLOW_CLOCK:.0%} of the highest: {where}",))


def _find_idle(use: Use) -> Any:
    """Of each GPU whether it had no work; one that was not seen is not idle."""
    return np.nan_to_num(use.avg, nan=100.0) <= IDLE_PCT


def _name(place: tuple[str | None, str | None]) -> str:
    host, element = place
    return f"{host or ''} GPU {element}".strip() if element is not None else (host or "")
