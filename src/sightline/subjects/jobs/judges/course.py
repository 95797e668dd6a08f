"""The course of a job over time: it waits for files, it stopped, one node is slower, none talk."""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.core.units import format_hours
from sightline.subjects.jobs.job import GPU, Job, Use
from sightline.subjects.jobs.judges._limits import (
    IDLE_PCT,
    LEAST_S,
    LEAST_SAMPLES,
    find_cpus_per_node,
    is_running,
    is_worth_judging,
)
from sightline.subjects.jobs.verdict import Verdict, cannot_judge, clear, find_problem

# SageMaker Debugger's IOBottleneck judges the share of time in which CPU or GPU wait for I/O; ours
# is a tenth of the time, as checkpoints take a few per cent of any training.
STALLED = 0.1
_QUIET, _LOUD = 0.2, 0.5  # ours, of the 90th percentile: no work, and much I/O
_LEAST_RATE = 10e6  # ours, bytes/s: what a log and its heartbeat do not reach
# Ours: what daemons and file systems send; one step of a distributed program sends more.
_SILENT_RATE = 1e6
# TraceLens and our rule slow-rank call a tenth slower a straggler; over a whole job, by one metric
# of a node, twice that.
SLOWER = 0.8
_ALIKE = 0.9
_COLLAPSED = 0.1  # ours: of what it was before; waiting in a loop computes nothing
# Ours: a GPU that spins in a collective is busy throughout, and draws half of its load or less.
_SPINNING_PCT, _SPINNING_POWER = 95.0, 0.7
_SPINNING = "GPUs are busy and draw little power"


def judge_stalls(job: Job) -> Verdict | None:
    """Nothing is computed while files are read or written."""
    rule = "job-io-stalls"
    if not is_worth_judging(job):
        return None
    work, files = find_work(job)[1], _find_files(job)
    if work is None or files is None:
        return cannot_judge(
            rule, "work and file traffic over time were not recorded (file_read, file_write)"
        )
    size = min(work.size, files.size)
    work, files = work[:size], files[:size]
    known = ~np.isnan(work) & ~np.isnan(files)
    if known.sum() < LEAST_SAMPLES:
        return cannot_judge(rule, "there are too few samples to show a trend")
    work, files = work[known], files[known]
    usual, much = np.percentile(work, 90), np.percentile(files, 95)
    if much < _LEAST_RATE or usual <= 0:
        return clear(rule)
    stalled = (work < _QUIET * usual) & (files >= max(_LOUD * much, _LEAST_RATE))
    share = float(stalled.mean())
    if share < STALLED:
        return clear(rule)
    text = f"It waits for files {100 * share:.0f} % of the time (at up to {much / 1e6:,.0f} MB/s)"
    fix = (
        "read ahead and write behind while it computes (DataLoader workers, asynchronous "
        "checkpoints), and put many small files on the node's own disk or into one"
    )
    return find_problem(rule, text, share, fix)


def judge_hang(job: Job) -> Verdict | None:
    """Work stopped long before the end, and did not begin again."""
    rule = "job-hang"
    if not is_worth_judging(job):
        return None
    dead = [tail for tail in _list_tails(job) if tail is not None]
    if not dead:
        return cannot_judge(rule, "no measure of its work over time was recorded")
    share = max(share for share, _ in dead)
    what = next(what for found, what in dead if found == share)
    if share * job.seconds < LEAST_S or share >= 0.98:
        return clear(rule)
    length = format_hours(round(share * job.seconds * 1e9))
    if is_running(job):
        text = f"It hangs now: nothing was computed for {length} ({what})"
        fix = (
            "see where its ranks are:  sightline attach PID  on its node, or py-spy dump; then "
            "scancel it. A dump of NCCL's flight recorder names the rank that is missing"
        )
    else:
        text = f"It had stopped {length} before it ended ({what})"
        fix = (
            "end it by itself when it hangs: TORCH_NCCL_ASYNC_ERROR_HANDLING, a timeout in srun, "
            "and save its flight recorder's dump: sightline DUMP names the rank that is missing"
        )
    return find_problem(rule, text, share, fix, (), _measure_tail_energy(job, share))


def _measure_tail_energy(job: Job, share: float) -> float | None:
    """Joules of the last share of a job, by its power then: of nodes, else of GPUs."""
    uses = (job.find_use("node_power"), job.find_use("acc_power", GPU), job.find_use("cpu_power"))
    use = next((u for u in uses if u is not None and u.values is not None), None)
    if use is None or use.values is None:
        return None
    tail = use.values[:, -max(1, round(share * use.values.shape[1])) :]
    watts = np.nansum(_average(tail.T)) if not np.isnan(tail).all() else 0.0
    return float(watts) * share * job.seconds or None


def judge_slow_node(job: Job) -> Verdict | None:
    """One node does less than the others though it is as busy: all wait for it."""
    rule = "job-slow-node"
    if job.count("nodes") < 3 or not is_worth_judging(job):
        return None
    rates = [(m, job.find_use(m)) for m in ("clock", "flops_any", "mem_bw")]
    known = [(m, u) for m, u in rates if u is not None and len(u.places) >= 3]
    if not known:
        return cannot_judge(rule, "no rate of each node was recorded (clock, flops_any, mem_bw)")
    busy = job.find_use("cpu_load") or job.find_use("cpu_user")
    for metric, use in known:
        for place, ratio in _list_slow(use):
            if metric != "clock" and not _is_as_busy(busy, place):
                continue
            host = place[0] or "One node"
            text = f"{host} is slower than the others: {metric} is {100 * ratio:.0f} % of theirs"
            fix = f"leave it out (--exclude={host}), and tell the operators: clocks, heat, power"
            return find_problem(rule, text, 1 - ratio, fix)
    return clear(rule)


def judge_network(job: Job) -> Verdict | None:
    """Several nodes that say nothing to each other."""
    rule = "job-idle-network"
    if job.count("nodes") < 2 or not is_worth_judging(job):
        return None
    uses = [job.find_use(m) for m in ("ib_recv", "ib_xmit", "net_bw", "eth_recv", "eth_xmit")]
    known = [u for u in uses if u is not None and not np.isnan(u.mean)]
    if not known:
        return cannot_judge(rule, "network traffic was not recorded (ib_recv, ib_xmit)")
    rate = max(float(np.nanmax(use.avg)) for use in known)
    if rate >= _SILENT_RATE:
        return clear(rule)
    text = (
        f"Its {job.count('nodes')} nodes send nothing to each other ({rate / 1e6:.2f} MB/s at most)"
    )
    fix = "run it on one node, or as an array of jobs: separate jobs start earlier; if it is meant "
    fix += "to be one program, its launcher does not connect the nodes (srun, mpirun, torchrun)"
    return find_problem(rule, text, 0.0, fix)


def find_work(job: Job) -> tuple[str, Any]:
    """The metric of a job's work, and its mean over all places: of GPUs if it has any.

    Empty and None where none was recorded over time.
    """
    names = ("acc_utilization",) if job.count("gpus") else ("cpu_user", "cpu_load")
    for name in names:
        use = job.find_use(name, GPU) if job.count("gpus") else job.find_use(name)
        if use is not None and use.values is not None:
            return name, _average(use.values)
    return "", None


def _find_files(job: Job) -> Any:
    """Bytes/s to and from files over time, over all nodes."""
    found = [job.find_use(m) for m in ("file_read", "file_write")]
    series = [u.values for u in found if u is not None and u.values is not None]
    if not series:
        return None
    size = min(values.shape[1] for values in series)
    return np.sum([np.nansum(values[:, :size], axis=0) for values in series], axis=0)


def _list_tails(job: Job) -> list[tuple[float, str] | None]:
    """For how much of the job, to its end, each measure of work has been dead, and its name."""
    if job.count("gpus"):
        use = job.find_use("acc_utilization", GPU)
        found = [_measure_tail(use, IDLE_PCT, "GPUs at 0 %")]
        power = _measure_drop(job.find_use("acc_power", GPU), _SPINNING_POWER, _SPINNING)
        found.append(_measure_spin(use, power))
        if job.count("nodes") > 1:
            what = "GPUs are busy and nothing is sent"
            sent = _measure_drop(job.find_use("ib_xmit"), _COLLAPSED, what)
            found.append(_measure_spin(use, sent))
        return found
    each = find_cpus_per_node(job)
    idle = None if each is None else 0.05 * each
    load, user = job.find_use("cpu_load"), job.find_use("cpu_user")
    found = [_measure_tail(user, 5.0, "processors idle")]
    if idle is not None:
        found.append(_measure_tail(load, idle, "processors idle"))
    # Waiting in a loop keeps processors busy: then neither computes nor reads memory.
    drops = [
        _measure_drop(job.find_use(m), _COLLAPSED, "no FLOPs, no memory traffic")
        for m in ("flops_any", "mem_bw")
    ]
    both = [drop for drop in drops if drop is not None]
    found.append(min(both) if len(both) == 2 else None)
    return found


def _measure_tail(use: Use | None, idle: float, what: str) -> tuple[float, str] | None:
    """The share of samples at the end in which all places are idle."""
    if use is None or use.values is None or use.values.shape[1] < LEAST_SAMPLES:
        return None
    busiest = np.nanmax(np.where(np.isnan(use.values), -np.inf, use.values), axis=0)
    return _count_tail(busiest > idle, np.isneginf(busiest)), what


def _measure_drop(use: Use | None, part: float, what: str) -> tuple[float, str] | None:
    """The same by what it was before: the median of its first half."""
    if use is None or use.values is None or use.values.shape[1] < LEAST_SAMPLES:
        return None
    whole = _average(use.values)
    before = whole[: whole.size // 2]
    before = before[~np.isnan(before)]
    usual = float(np.median(before)) if before.size else 0.0
    if usual <= 0:
        return 0.0, what
    return _count_tail(np.nan_to_num(whole, nan=0.0) > part * usual, np.isnan(whole)), what


def _measure_spin(use: Use | None, dropped: tuple[float, str] | None) -> tuple[float, str] | None:
    """The share of samples at the end in which GPUs are busy throughout, and something dropped."""
    if dropped is None or use is None or use.values is None:
        return None
    idle = np.nan_to_num(_average(use.values), nan=100.0) < _SPINNING_PCT
    return min(dropped[0], _count_tail(idle, np.zeros_like(idle))), dropped[1]


def _count_tail(alive: np.ndarray, unseen: np.ndarray) -> float:
    """The share of seen samples behind the last one that is alive; 0 if none ever was."""
    alive, seen = alive[~unseen], int((~unseen).sum())
    if not seen or not alive.any():
        return 0.0
    return float(alive[::-1].argmax()) / seen


def _list_slow(use: Use) -> list[tuple[tuple[str | None, str | None], float]]:
    """The one place that is slower than the median of the others; none where several are."""
    known = [(p, a) for p, a in zip(use.places, use.avg, strict=True) if not np.isnan(a)]
    usual = float(np.median([a for _, a in known])) if known else 0.0
    slow = [(place, a / usual) for place, a in known if usual > 0 and a < SLOWER * usual]
    return slow if len(slow) == 1 else []


def _is_as_busy(busy: Use | None, place: tuple[str | None, str | None]) -> bool:
    """Whether a node has as much to do as the others; not known is no."""
    if busy is None:
        return False
    own = [a for (host, _), a in zip(busy.places, busy.avg, strict=True) if host == place[0]]
    usual = float(np.nanmedian(busy.avg))
    return bool(own) and own[0] >= _ALIKE * usual


def _average(values: np.ndarray) -> np.ndarray:
    """Over places; NaN where no place was seen."""
    seen = (~np.isnan(values)).sum(axis=0)
    return np.where(seen > 0, np.nansum(values, axis=0) / np.maximum(seen, 1), np.nan)
