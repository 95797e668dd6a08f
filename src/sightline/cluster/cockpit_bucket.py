"""Job archives of ClusterCockpit in object storage, in both forms that cc-backend writes there.

Files as in a folder (cc-backend, pkg/archive/s3Backend.go):

    CLUSTER/cluster.json    CLUSTER/NUMBER÷1000/NUMBER%1000/START/meta.json, data.json[.gz]

and Parquet (pkg/archive/parquet/target.go): CLUSTER/cc-archive-DATE-NUMBER.parquet. Names of
objects are strangers': only what has one of these forms is read, and becomes a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sightline.cluster.bucket import Objects
from sightline.cluster.documents import is_key, make_key
from sightline.cluster.names import is_cluster
from sightline.core.units import format_bytes, format_several

_FILE = re.compile(
    r"(?:([^/]+)/)?(\d{1,16})/(\d{3})/(\d{1,12})/(meta\.json|data\.json(?:\.gz|\.zst)?)"
)
_PARQUET = re.compile(r"(?:([^/]+)/)?cc-archive-[A-Za-z0-9_.-]{1,100}\.parquet")
_CLUSTER = re.compile(r"(?:([^/]+)/)?cluster\.json")
_META = "meta.json"
# cc-backend writes meta.json first: a job whose data has not come for as long has none.
_LATE = timedelta(hours=1)
# Ours: the largest that its authors show has 40 MB; more is no job's.
_MOST_BYTES = 1 << 30
_NEVER = datetime.min.replace(tzinfo=UTC)
_AT_ONCE = 500  # jobs whose files are on this machine at a time


@dataclass
class CockpitJob:
    """The objects of a job by name, with the stamp of each."""

    cluster: str
    number: int
    start_s: int
    objects: dict[str, str] = field(default_factory=dict)
    changed: datetime = _NEVER

    def is_whole(self, now: datetime) -> bool:
        """Whether all of it is there, as far as one can know."""
        names = {name.rpartition("/")[2] for name in self.objects}
        return _META in names and (len(names) > 1 or now - self.changed > _LATE)


@dataclass
class CockpitArchive:
    """What an address has: jobs by their folder, Parquet with its stamps, clusters' files."""

    jobs: dict[str, CockpitJob] = field(default_factory=dict)
    parquet: dict[str, str] = field(default_factory=dict)
    clusters: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)


def list_archive(objects: Objects) -> CockpitArchive:
    """All that is there. Raises OSError."""
    found = CockpitArchive()
    for one in objects.list():
        name, size = one["path"], one["size"]
        if match := _FILE.fullmatch(name):
            if not _may_be(match[1]):
                continue
            if size > _MOST_BYTES:
                found.too_large.append(name)
                continue
            folder = name.rpartition("/")[0]
            number = 1000 * int(match[2]) + int(match[3])
            job = found.jobs.setdefault(folder, CockpitJob(match[1] or "", number, int(match[4])))
            job.objects[name] = _stamp(one)
            job.changed = max(job.changed, one["last_modified"])
        elif (match := _PARQUET.fullmatch(name)) and _may_be(match[1]):
            found.parquet[name] = _stamp(one)
        elif (match := _CLUSTER.fullmatch(name)) and _may_be(match[1]) and size <= _MOST_BYTES:
            found.clusters.append(name)
    return found


def bring_jobs(
    objects: Objects, jobs: Iterable[CockpitJob], clusters: Iterable[str], folder: Path
) -> None:
    """Copy the files of some jobs, and what is normal on their clusters. Raises OSError."""
    for name in [*clusters, *(name for job in jobs for name in job.objects)]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        objects.save(name, target)


def batch_jobs(jobs: Iterable[CockpitJob]) -> Iterator[list[CockpitJob]]:
    """Some jobs at a time."""
    held: list[CockpitJob] = []
    for job in jobs:
        held.append(job)
        if len(held) == _AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def name_key(job: CockpitJob) -> str:
    """What the store calls it; empty where the address does not say of which cluster it is."""
    key = make_key(job.cluster, str(job.number), job.start_s * 10**9)
    return key if is_key(key) else ""


def bring_archive(
    url: str, folder: Path, since_s: float, most: int, said: Callable[[str], None]
) -> None:
    """Copy an archive to read it here: jobs that began since, the latest ones, and all Parquet.

    `said` is told what is left out. Raises InputError, RequestError, OSError.
    """
    objects = Objects(url)
    found = list_archive(objects)
    wanted = [job for job in found.jobs.values() if job.start_s >= since_s]
    wanted = [job for job in wanted if any(name.endswith(_META) for name in job.objects)]
    wanted.sort(key=lambda job: -job.start_s)
    bring_jobs(objects, wanted[:most], found.clusters, folder)
    for name in found.parquet:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        objects.save(name, target)
    if len(wanted) > most:
        told = format_several(len(wanted), "job")
        said(
            f"{url} has {told}: only the latest {most:,} are read; ask for a shorter time with "
            "--since"
        )
    for name in found.too_large:
        said(f"{url}: {name} is larger than {format_bytes(_MOST_BYTES)} and is left out")


def _may_be(cluster: str | None) -> bool:
    return cluster is None or is_cluster(cluster)


def _stamp(one: dict[str, Any]) -> str:
    return f"{one['size']} {one['e_tag']} {one['last_modified']}"
