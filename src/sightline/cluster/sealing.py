"""What a checkpoint writes: samples, jobs that ended, and one file of a day instead of many.

And the file `checkpoint` itself, whose number says which of the others count.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import polars as pl

from sightline.cluster.courses import SCHEMA as COURSE_SCHEMA
from sightline.cluster.courses import list_courses
from sightline.cluster.documents import Known, split_key
from sightline.cluster.journal import sync_file, sync_folder
from sightline.cluster.live import Samples, SeriesTable, list_frames
from sightline.cluster.shelf import (
    COURSES,
    JOBS,
    OF_JOBS,
    PROBLEMS,
    SAMPLES,
    Shelf,
    find_day,
    name_part,
)
from sightline.cluster.verdicts import JOB_SCHEMA, PROBLEM_SCHEMA, describe
from sightline.core.whole_file import write_whole
from sightline.errors import InputError
from sightline.subjects.jobs.job import Job

CHECKPOINT = "checkpoint"
_VERSION = 1
_DAY_NS = 86_400 * 10**9
# Ours: parts of 0.1 s on one core, then as long a rest; ten minutes of 100,000 series take 10 s.
_AT_ONCE = 250_000
_REST, _MOST_REST_S = 1.0, 0.5
SCATTERED = 24  # files of a day before they become one


def write_samples(
    shelf: Shelf, table: SeriesTable, held: Samples, number: int, *, gently: bool = False
) -> None:
    """Samples by cluster and day. Raises OSError.

    `gently`: with rests, so that what comes in meanwhile has the larger part of the processor.
    """
    if not held.count:
        return
    numbers, times, values = held.columns()
    rows = list(table.rows)
    clusters = {c: n for n, c in enumerate({row.cluster for row in rows if row is not None})}
    known = [-1 if row is None else clusters[row.cluster] for row in rows]
    of = np.array(known, np.int32)[numbers]
    days = times // _DAY_NS
    for name, code in clusters.items():
        for day in np.unique(days[of == code]).tolist():
            keep = (of == code) & (days == day)
            parts = []
            began = time.monotonic()
            for part in list_frames(table, numbers[keep], times[keep], values[keep], _AT_ONCE):
                parts.append(part)
                if gently:
                    time.sleep(min(_MOST_REST_S, _REST * (time.monotonic() - began)))
                began = time.monotonic()
            frame = pl.concat(parts, rechunk=False)
            shelf.write(name_part(SAMPLES, name, find_day(day * _DAY_NS), number), frame)


def write_jobs(
    shelf: Shelf,
    number: int,
    jobs: Mapping[str, Known | Job],
    assemble: Callable[[Known], Job],
) -> None:
    """Jobs with their problems and courses by cluster and day. Raises OSError."""
    places: dict[tuple[str, str], list[tuple[str, Known | Job]]] = {}
    for key, one in jobs.items():
        cluster, _, start = split_key(key)
        places.setdefault((cluster, find_day(start)), []).append((key, one))
    for (cluster, day), own in places.items():
        rows, problems, courses = [], [], []
        for key, one in sorted(own, key=lambda pair: pair[0]):
            job = assemble(one) if isinstance(one, Known) else one
            made, said = describe(key, job)
            rows.append(made)
            problems += said
            courses += list_courses(key, job)
        made_of: tuple[tuple[str, list[Any], dict[str, Any]], ...] = (
            (JOBS, rows, JOB_SCHEMA),
            (PROBLEMS, problems, PROBLEM_SCHEMA),
            (COURSES, courses, dict(COURSE_SCHEMA)),
        )
        for kind, found, schema in made_of:
            if found:
                frame = pl.DataFrame(found, schema=schema, orient="row")
                shelf.write(name_part(kind, cluster, day, number), frame)


def join_days(shelf: Shelf, number: int, gone: Collection[str]) -> list[str]:
    """One file instead of many, of days of jobs that have many; what it replaces.

    `gone` counts no longer: an earlier one replaced it. Raises OSError.
    """
    replaced: list[str] = []
    for kind in OF_JOBS:
        for cluster, day, names in shelf.find_scattered(kind, SCATTERED):
            counted = [name for name in names if name not in gone]
            if len(counted) <= SCATTERED:
                continue
            whole = shelf.read(counted).sort("job_key", maintain_order=True)
            # Not over the file that this checkpoint wrote: what is joined is counted once.
            own = name_part(kind, cluster, day, number)
            shelf.write(own, whole)
            replaced += [name for name in counted if name != own]
    return replaced


def pack_checkpoint(held: Mapping[str, Any]) -> bytes:
    """As it lies on the disk: its sum, then msgpack."""
    data: bytes = msgpack.packb({"version": _VERSION, **held})
    return _check(data) + data


def unpack_checkpoint(data: bytes, where: str) -> dict[str, Any]:
    """Of `pack_checkpoint`. Raises InputError of what is damaged, or of another version."""
    if data[:4] != _check(data[4:]):
        raise InputError(f"{where} is damaged", hint="Take it, and the log, from a copy.")
    held: dict[str, Any] = msgpack.unpackb(data[4:])
    if held["version"] != _VERSION:
        raise InputError(f"{where} is of another version of sightline")
    return held


def write_checkpoint(root: Path, data: bytes) -> None:
    """On the disk when this returns: the whole, or the one before. Raises OSError."""
    part = root / f"{CHECKPOINT}.new"
    write_whole(part, data)
    sync_file(part)
    part.replace(root / CHECKPOINT)
    sync_folder(root)


def _check(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")
