"""Recordings that were given together, grouped into jobs; what is not one job is never merged."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sightline.core.model.declare import Quality
from sightline.core.units import format_long, format_several
from sightline.errors import InputError
from sightline.opening.given import Given, name_both
from sightline.opening.job_evidence import find_difference, has_evidence

_SHOWN = 12  # jobs in an error
_NOTHING_SHOWN = "nothing shows that {} and {} belong together: no rank, no time and no program"


@dataclass
class Job:
    """Recordings of one job: all of them, one of each kind to compare others with, and its ranks.

    Ten thousand ranks are one job, too: a recording is not compared with each of them.
    """

    recordings: list[Given]
    kinds: dict[frozenset[str], Given] = field(default_factory=dict)
    ranks: dict[int, Given] = field(default_factory=dict)
    # What is merged though nothing shows that it belongs here.
    unproven: list[Given] = field(default_factory=list)

    def add(self, one: Given) -> None:
        """Take in one more."""
        self.recordings.append(one)
        self.kinds.setdefault(one.formats, one)
        if one.has_timeline:
            self.ranks.update(dict.fromkeys(one.ranks, one))


def check_same_job(given: Sequence[Given]) -> list[Quality]:
    """What is taken to be of one job and cannot be shown to be, as notes.

    Raises InputError, which lists the jobs, unless all are of one.
    """
    jobs, reason = group_jobs(given)
    if len(jobs) < 2:
        return [_note_unproven(one, job.recordings) for job in jobs for one in job.unproven]
    raise InputError(
        "the recordings belong to different jobs, or to several captures of one",
        why=reason,
        hint="\n".join(_list_commands(jobs)),
    )


def _note_unproven(one: Given, job: Sequence[Given]) -> Quality:
    name, other = name_both(one, next(each for each in job if each is not one))
    return Quality(
        "unproven_job",
        "info",
        f"{_NOTHING_SHOWN.format(name, other)}; they are read as one job",
        None,
        f"Open {name} alone if it is another program's.",
    )


def group_jobs(given: Sequence[Given]) -> tuple[list[Job], str | None]:
    """The jobs that recordings are of, and why the first two are not one.

    What has a timeline is joined by evidence only. Of the rest, what fits none by evidence goes
    with the only job that is there, unless several of its kind would be taken for the same thing.
    """
    jobs: list[Job] = []
    reasons: list[str] = []
    alone: list[Given] = []
    for one in sorted(given, key=lambda one: not one.has_timeline):
        if not _join(one, jobs, reasons):
            if one.has_timeline:
                jobs.append(_begin(one))
            else:
                alone.append(one)
    for one in alone:
        if not _join(one, jobs, reasons) and not _join_only(one, jobs):
            jobs.append(_begin(one))
    if len(jobs) > 1 and not reasons:
        first, second = (job.recordings[0].name for job in jobs[:2])
        reasons.append(_NOTHING_SHOWN.format(first, second))
    order = {one.name: number for number, one in enumerate(given)}
    for job in jobs:
        job.recordings.sort(key=lambda one: order[one.name])
    return jobs, next(iter(reasons), None)


def is_same_job(a: Given, b: Given) -> bool:
    """Whether nothing shows that two are of different jobs."""
    return find_difference(a, b) is None


def _begin(one: Given) -> Job:
    job = Job([])
    job.add(one)
    return job


def _join(one: Given, jobs: Iterable[Job], reasons: list[str]) -> bool:
    """Add it to the first job that it belongs to by evidence; else say why to none."""
    for job in jobs:
        difference = _find_difference(one, job)
        if difference is None and any(has_evidence(k, one) for k in job.kinds.values()):
            job.add(one)
            return True
        if difference is not None:
            reasons.append(difference)
    return False


def _join_only(one: Given, jobs: Sequence[Job]) -> bool:
    """Add it to the only job, if that has no more of its kind than it has ranks."""
    if len(jobs) != 1 or _find_difference(one, jobs[0]) is not None:
        return False
    (job,) = jobs
    alike = sum(bool(other.formats & one.formats) for other in job.recordings)
    timelines = sum(other.has_timeline for other in job.recordings)
    if alike >= max(timelines, 1):
        return False
    job.add(one)
    job.unproven.append(one)
    return True


def _find_difference(one: Given, job: Job) -> str | None:
    """What shows that it is not of the job, as a clause; None where nothing does."""
    clause = _find_capture(job.ranks, one) if one.has_timeline else None
    clauses = (find_difference(known, one) for known in job.kinds.values())
    return clause or next(filter(None, clauses), None)


def _find_capture(known: dict[int, Given], one: Given) -> str | None:
    """What shows that a rank was recorded twice, one time after the other, as a clause."""
    for rank in sorted(one.ranks & known.keys()):
        early, late = sorted((one, known[rank]), key=lambda given: given.span)
        between = late.span[0] - early.span[1]
        if between > 0:
            return (
                f"rank {rank} was recorded twice: {early.name} ended {format_long(between)} "
                f"before {late.name} began"
            )
    return None


def _list_commands(jobs: Sequence[Job]) -> list[str]:
    """What to type for each job, for two of them side by side, and to merge all the same."""
    places = [{Path(one.name).absolute() for one in job.recordings} for job in jobs]
    names = []
    for number, job in enumerate(jobs):
        others = set().union(*(p for n, p in enumerate(places) if n != number))
        names.append(_write_names(job, others))
    shown = [f"  sightline {name}" for name in names[:_SHOWN]]
    if len(jobs) > _SHOWN:
        shown.append(f"  … and {len(jobs) - _SHOWN} more: give a folder further inside")
    every = f" of the {format_several(len(jobs), 'job')}" if len(jobs) > _SHOWN else ""
    lines = [f"A report for each{every}:", *shown]
    if len(jobs) == 2:
        lines += ["To compare them:", f"  sightline compare --before {names[0]} --after {names[1]}"]
    return [*lines, "To merge them anyway:  --same-job"]


def _write_names(job: Job, others: set[Path]) -> str:
    """The recordings of a job as one types them: their folder, where it holds no other job."""
    given = [one.name for one in job.recordings]
    folder = Path(given[0]).parent
    while len(given) > 1 and any(folder not in Path(name).parents for name in given):
        if folder == folder.parent:
            return shlex.join(given)
        folder = folder.parent
    whole = folder.absolute()
    if len(given) == 1 or any(whole in other.parents for other in others):
        return shlex.join(given)
    return shlex.quote(str(folder))
