"""The course of a job's metrics over its length, a line each: of all nodes or GPUs together."""

from __future__ import annotations

import numpy as np

from sightline.core.job_metrics import METRICS
from sightline.core.units import format_bytes, format_flop_rate, format_rate
from sightline.subjects.jobs.job import GPU, NODE, Job
from sightline.subjects.jobs.phases import list_phases
from sightline.views.jobs.words import write_length

_RISING = " ▁▂▃▄▅▆▇█"
_SLICES = 50
# What says most of how a job went, in this order.
_SHOWN = (
    ("acc_utilization", GPU), ("acc_sm_active", GPU), ("acc_power", GPU), ("cpu_load", NODE),
    ("flops_any", NODE), ("mem_bw", NODE), ("mem_used", NODE), ("file_read", NODE),
    ("file_write", NODE), ("ib_recv", NODE), ("net_bw", NODE),
)  # fmt: skip


def write_course(job: Job) -> str:
    """Lines with the mean over places, from nothing to the largest; "" without any series."""
    lines = []
    for metric, scope in _SHOWN:
        use = job.find_use(metric, scope)
        if use is None or use.values is None:
            continue
        means = _reduce(use.values)
        known = means[~np.isnan(means)]
        if not known.size:
            continue
        most = float(known.max())
        lines.append(f"  {metric:<16}{_draw(means, most)}  up to {_write(metric, most)}")
    return "\n".join(["Over time (mean of nodes or GPUs)", *lines]) if lines else ""


def write_phases(job: Job) -> str:
    """A line of each phase of its work; "" where it has one level."""
    phases = list_phases(job)
    if not phases:
        return ""
    lines = [
        f"  {write_length(round(p.start_s * 1e9))} to {write_length(round(p.end_s * 1e9))}"
        f"  {_write(p.metric, p.level)}"
        for p in phases
    ]
    return "\n".join([f"Phases ({phases[0].metric}, mean of nodes or GPUs)", *lines])


def _reduce(values: np.ndarray) -> np.ndarray:
    """Means over places and equal slices of time; NaN where nothing was sampled."""
    slices = np.array_split(values, min(_SLICES, values.shape[1]), axis=1)
    return np.array([np.nan if np.isnan(one).all() else np.nanmean(one) for one in slices])


def _draw(means: np.ndarray, most: float) -> str:
    """A letter each slice, a dot where nothing was sampled."""
    top = len(_RISING) - 1
    letters = [
        "·" if np.isnan(mean) else _RISING[round(top * max(mean, 0.0) / most)] if most > 0 else " "
        for mean in means
    ]
    return "".join(letters).ljust(_SLICES)


def _write(metric: str, value: float) -> str:
    unit = METRICS[metric].unit
    write = {"bytes": format_bytes, "bytes/s": format_rate, "flop/s": format_flop_rate}.get(unit)
    return write(value) if write is not None else f"{value:,.0f} {unit}".rstrip()
