"""Rules back in time: all kept jobs judged once more, a task for some jobs of a day.

What a new threshold or a rule of one's own would have said of the last year, beside what was said
then. Nothing of the store is changed, so it may be served meanwhile. Past one machine a client of
Dask has the tasks (`Client.map`): workers read the same folder or bucket, and send verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sightline.cluster.bucket import Bucket
from sightline.cluster.courses import read_uses
from sightline.cluster.sealing import CHECKPOINT, unpack_checkpoint
from sightline.cluster.shelf import (
    COURSES,
    JOBS,
    PROBLEMS,
    Folder,
    Shelf,
    find_day,
    list_counted,
    read_rows,
    split_name,
)
from sightline.cluster.verdicts import PROBLEM_SCHEMA, describe
from sightline.diagnosis.custom.forms import OwnRule
from sightline.errors import InputError
from sightline.subjects.jobs.job import Job, contradicts_limits
from sightline.subjects.jobs.own_rules import judge_job

LimitsOf = Callable[[Mapping[str, Any]], Mapping[str, Any]]
# Jobs of a task: some hundred kilobytes of courses each, and a second of a core.
_TOGETHER = 250
SCHEMA = {**PROBLEM_SCHEMA, "user": pl.String, "project": pl.String}


@dataclass(frozen=True)
class Task:
    """Some jobs of a day: where their rows and courses are."""

    cluster: str
    keys: tuple[str, ...]
    jobs: tuple[str, ...]
    courses: tuple[str, ...]


def open_archive(root: Path, bucket: str) -> tuple[Shelf, dict[str, Any]]:
    """The files of a store, and its checkpoint, to read. Raises InputError, RequestError."""
    place = root / CHECKPOINT
    try:
        shelf: Shelf = Bucket(bucket) if bucket else Folder(root)
        if place.is_file():
            return shelf, unpack_checkpoint(place.read_bytes(), str(place))
        data = shelf.read_checkpoint() if isinstance(shelf, Bucket) else None
    except OSError as error:
        raise InputError(f"{bucket or root} cannot be read", why=str(error)) from error
    if data is None:
        raise InputError(
            f"there are no jobs in {bucket or root}",
            why="no checkpoint has been written there",
            hint="sightline cluster serve   keeps them",
        )
    return shelf, unpack_checkpoint(data, f"{bucket}/{CHECKPOINT}")


def list_tasks(
    shelf: Shelf, checkpoint: Mapping[str, Any], since_ns: int, until_ns: int
) -> Iterator[Task]:
    """All jobs that began in a span, some of a day at a time. Raises OSError."""
    days: dict[tuple[str, str], None] = {}
    for name in _list_counted(checkpoint, shelf.list_parts(JOBS)):
        part = split_name(name)
        if part is not None and find_day(since_ns) <= part.day <= find_day(until_ns):
            days[part.cluster, part.day] = None
    for cluster, day in days:
        jobs, courses = (
            tuple(
                shelf.address(name)
                for name in _list_counted(checkpoint, shelf.list_parts(kind, cluster, day))
            )
            for kind in (JOBS, COURSES)
        )
        wanted = pl.col("start_ns").is_between(since_ns, until_ns, closed="left")
        keys = read_rows(jobs, wanted, ["job_key"]).get_column("job_key").sort().to_list()
        for first in range(0, len(keys), _TOGETHER):
            yield Task(cluster, tuple(keys[first : first + _TOGETHER]), jobs, courses)


def _list_counted(checkpoint: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    gaps = checkpoint.get("gaps", ())
    return list_counted(names, checkpoint["number"], set(checkpoint["dropped"]), gaps)


def judge(task: Task, rules: Sequence[OwnRule], limits: LimitsOf) -> pl.DataFrame:
    """What the built-in rules say of some jobs, or those that are given: rows of `SCHEMA`.

    Raises OSError where the files are gone.
    """
    wanted = pl.col("job_key").is_in(list(task.keys))
    rows = read_rows(task.jobs, wanted)
    courses: dict[str, pl.DataFrame] = {}
    if task.courses:
        held = read_rows(task.courses, wanted).partition_by(
            "job_key", as_dict=True, maintain_order=True
        )
        courses = {str(key[0]): own for key, own in held.items()}
    said: list[dict[str, Any]] = []
    for row in rows.iter_rows(named=True):
        key = row["job_key"]
        job = _make_job({**row, "cluster": task.cluster}, courses.get(key), limits)
        found = _ask_own(key, job, rules) if rules else describe(key, job)[1]
        said += [{**one, "user": row["user"], "project": row["project"]} for one in found]
    return pl.DataFrame(said, schema=SCHEMA, orient="row")


def _make_job(row: dict[str, Any], courses: pl.DataFrame | None, limits: LimitsOf) -> Job:
    about = {"rank": 0, "recording_id": 0, "job_row_id": 0, **row}
    nodes = tuple({"host": host} for host in row["hosts"] or ())
    uses = {} if courses is None else read_uses(courses)
    limited = Job(about, nodes, uses, limits(about))
    return Job(about, nodes, uses, {}) if contradicts_limits(limited) else limited


def _ask_own(key: str, job: Job, rules: Sequence[OwnRule]) -> Iterator[dict[str, Any]]:
    for found in judge_job(job, rules):
        yield {"job_key": key, **{name: found.get(name) for name in list(PROBLEM_SCHEMA)[1:]}}


def read_then(shelf: Shelf, checkpoint: Mapping[str, Any], keys: Iterable[str]) -> dict[str, int]:
    """Of how many of these jobs each rule held when they ended. Raises OSError."""
    names = _list_counted(checkpoint, shelf.list_parts(PROBLEMS))
    if not names:
        return {}
    wanted = pl.col("judged") & pl.col("job_key").is_in(list(keys))
    rows = shelf.read(names, wanted, ["job_key", "rule"])
    return dict(rows.unique().group_by("rule").len().iter_rows())


def sum_rules(said: pl.DataFrame, then: Mapping[str, int]) -> list[dict[str, Any]]:
    """A row each rule: jobs of which it holds now and held then, hours, jobs not judged."""
    held = pl.col("judged")
    rows = (
        said.group_by("rule")
        .agg(
            jobs=held.sum(),
            gpu_hours=pl.col("gpu_hours").filter(held).sum(),
            core_hours=pl.col("core_hours").filter(held).sum(),
            users=pl.col("user").filter(held).n_unique(),
            not_judged=(~held).sum(),
        )
        .to_dicts()
    )
    known = {row["rule"] for row in rows}
    empty = {"jobs": 0, "gpu_hours": 0.0, "core_hours": 0.0, "users": 0, "not_judged": 0}
    rows += [{"rule": rule, **empty} for rule in then if rule not in known]
    made = [{**row, "then": then.get(row["rule"], 0)} for row in rows]
    return sorted(made, key=lambda r: (-r["gpu_hours"], -r["core_hours"], -r["jobs"], r["rule"]))
