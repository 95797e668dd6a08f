"""The phases of a job: where the level of its work changes, by the change points of a series.

Set-up, training, evaluation, writing: what a mean over the whole job hides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sightline.core.algebra.change_points import find_changes
from sightline.subjects.jobs.job import Job
from sightline.subjects.jobs.judges._limits import is_worth_judging
from sightline.subjects.jobs.judges.course import find_work

# Ours: a level is three values at least, so a phase is a twentieth of the job.
_VALUES = 60
# Ours: of the highest level; less is how programs vary.
_LEAST_CHANGE = 0.15
_MOST = 1e30


class Phase(NamedTuple):
    """A part of a job with one level of work: of `metric`, on average over nodes or GPUs."""

    start_s: float
    end_s: float
    metric: str
    level: float


def list_phases(job: Job) -> list[Phase]:
    """The phases in their order; none where work over time is not known, or has one level."""
    metric, work = find_work(job)
    if work is None or not is_worth_judging(job):
        return []
    slices = np.array_split(work, min(_VALUES, work.size))
    means = np.array([np.nanmean(s) if (~np.isnan(s)).any() else np.nan for s in slices])
    known = np.flatnonzero(~np.isnan(means))
    if not ((means[known] >= 0) & (means[known] <= _MOST)).all():
        return []  # an archive may say anything
    places = [int(known[change.at]) for change in find_changes(means[known].tolist())]
    ends = [0, *places, means.size]
    levels = [float(np.nanmean(means[a:b])) for a, b in pairwise(ends)]
    least = _LEAST_CHANGE * max(levels, default=0.0)
    each = job.seconds / means.size
    found: list[Phase] = []
    for (begin, end), level in zip(pairwise(ends), levels, strict=True):
        if found and abs(found[-1].level - level) < least:
            begin = round(found[-1].start_s / each)
            found.pop()
            level = float(np.nanmean(means[begin:end]))
        found.append(Phase(begin * each, end * each, metric, level))
    return found if len(found) > 1 else []
