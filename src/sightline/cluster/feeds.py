"""Jobs from what a site has already: Slurm's accounting, archives of ClusterCockpit, Prometheus.

Read now and then; a job is taken once it has ended. What is there already is not read again.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sightline.cluster.bucket import Objects
from sightline.cluster.cockpit_bucket import batch_jobs, bring_jobs, list_archive, name_key
from sightline.cluster.config import BUCKET, Sources
from sightline.cluster.documents import is_key, make_key
from sightline.cluster.names import is_cluster
from sightline.cluster.store import Store
from sightline.core.model.declare import ImportOptions
from sightline.core.model.run import Run
from sightline.opening.scheduler import ask_accounting
from sightline.session import open_session
from sightline.subjects.jobs.job import Job, Limits, list_jobs

_FIRST_S = 7 * 86_400  # what is asked of accounting at first
_OVERLAP_S = 86_400
_OVER = (
    "completed", "failed", "timeout", "cancelled", "out_of_memory", "node_fail", "preempted",
    "deadline", "boot_fail",
)  # fmt: skip

AddSeries = Callable[[Run], Run]


class Feeds:
    """The sources of a configuration, and what was read of them."""

    def __init__(
        self, sources: Sources, cluster: str, store: Store, add_series: AddSeries | None = None
    ) -> None:
        """`add_series` asks Prometheus about the jobs of a run."""
        self._sources, self._cluster, self._store = sources, cluster, store
        self._add_series = add_series
        self._since = time.time() - _FIRST_S
        self._seen: dict[str, int] = {}
        self._stamps: dict[str, str] = {}

    def read(self, failed: Callable[[str], None]) -> int:
        """Read all sources once; how many jobs are new. `failed` is told what could not be."""
        added = 0
        for path in self._sources.clustercockpit:
            try:
                if path.startswith(BUCKET):
                    added += self._read_bucket(path, failed)
                    continue
                changed = _stamp(Path(path))
                if self._seen.get(path) != changed:
                    added += self._take(_open([path]))
                    self._seen[path] = changed
            except Exception as error:  # a source that is away is not an end
                failed(f"{path}: {error}")
        if self._sources.slurm:
            began = time.time()
            try:
                added += self._read_accounting()
                self._since = began - _OVERLAP_S
            except Exception as error:
                failed(f"sacct: {error}")
        return added

    def _read_bucket(self, url: str, failed: Callable[[str], None]) -> int:
        """An archive in object storage: each job and file that is new, or has grown."""
        objects = Objects(url)
        found = list_archive(objects)
        now = datetime.now(UTC)
        jobs = {
            folder: job
            for folder, job in found.jobs.items()
            if job.is_whole(now) and f"{url}/{folder}" not in self._seen
        }
        kept = self._store.list_known(name_key(job) for job in jobs.values())
        new = [job for job in jobs.values() if name_key(job) not in kept]
        added = 0
        for batch in batch_jobs(new):
            added += self._take_files(partial(bring_jobs, objects, batch, ()))
        self._seen.update({f"{url}/{folder}": 0 for folder in jobs})
        for name, stamp in found.parquet.items():
            if self._stamps.get(f"{url}/{name}") != stamp:
                added += self._take_files(partial(_save, objects, name))
                self._stamps[f"{url}/{name}"] = stamp
        for name in found.too_large:
            if self._stamps.get(f"{url}/{name}") is None:
                failed(f"{url}: {name} is left out: it is too large")
                self._stamps[f"{url}/{name}"] = ""
        return added

    def _take_files(self, bring: Callable[[Path], None]) -> int:
        with tempfile.TemporaryDirectory(prefix="sightline-cluster-") as folder:
            bring(Path(folder))
            return self._take(_open([folder]))

    def _read_accounting(self) -> int:
        folder = Path(tempfile.mkdtemp(prefix="sightline-cluster-"))
        try:
            since = datetime.fromtimestamp(self._since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            run: Run = _open([str(ask_accounting(folder, since))])
            if self._add_series is not None:
                run = self._add_series(run)
            return self._take(run)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _take(self, run: Run) -> int:
        return self._store.add_jobs(list_ended(run, self._cluster))


def list_ended(run: Run, cluster: str) -> Iterator[tuple[str, Job]]:
    """The jobs of a run that ended, with their keys; `cluster` is that of those without one."""
    for job in list_jobs(run):
        row = job.row
        own = row["cluster"] or cluster
        if row["state"] not in _OVER or not row["start_ns"] or not is_cluster(own):
            continue
        key = make_key(own, row["job_id"], row["start_ns"])
        if is_key(key):
            about = {**row, "cluster": own}
            yield key, Job(about, job.nodes, job.uses, job.limits)


def read_limits(paths: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """What is normal on nodes, of files cluster.json of ClusterCockpit. Raises InputError."""
    if not paths:
        return lambda row: {}
    run = _open(list(paths))
    return Limits(run.table("metric_limits")).find


def _open(paths: list[str]) -> Any:
    return open_session(paths, options=ImportOptions(keep_identity=True), same_job=True)


def _save(objects: Objects, name: str, folder: Path) -> None:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    objects.save(name, target)


def _stamp(path: Path) -> int:
    """When something of an archive changed last: its folders', down to the jobs' numbers."""
    newest = path.stat().st_mtime_ns
    if path.is_dir():
        for depth in ("*", "*/*", "*/*/*"):
            newest = max([newest, *(p.stat().st_mtime_ns for p in path.glob(depth))])
    return newest
