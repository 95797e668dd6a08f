"""The store of a cluster's jobs: a log, samples in memory, and Parquet by cluster and day.

What comes in goes to the log first, and counts once it is on the disk. A checkpoint writes the
samples in memory and the jobs that ended as Parquet, then what is still running, then drops the
log up to there. After a kill at any moment the last checkpoint and the log behind it are all there
is to know. One process has a store at a time.

    FOLDER/journal/*.wal  checkpoint  samples/ jobs/ problems/ courses/  (shelf.py)

Where a bucket is configured, the last three lie there (bucket.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sightline.cluster import sealing, shelf
from sightline.cluster.bucket import Bucket
from sightline.cluster.courses import make_job, make_uses, read_uses
from sightline.cluster.documents import (
    Known,
    decode_known,
    is_key,
    read_start,
    read_stop,
    split_key,
)
from sightline.cluster.holding import (
    check_owner,
    commit_checkpoint,
    join_bucket,
    refuse_without,
)
from sightline.cluster.journal import Gap, Journal, keep_gaps, list_files, read_records
from sightline.cluster.live import (
    Samples,
    SeriesTable,
    decode_samples,
    empty_frame,
    encode_samples,
    make_frame,
)
from sightline.cluster.lost_jobs import STATE, list_lost
from sightline.cluster.names import Series, is_cluster
from sightline.cluster.points import Batch
from sightline.core.units import format_several
from sightline.errors import InputError, RequestError
from sightline.subjects.jobs.job import Job, contradicts_limits

_SERIES, _POINTS, _START, _END = b"S", b"P", b"J", b"E"
_LOCK, _JOURNAL = "lock", "journal"
# Ours: 200 MB of memory; ten minutes of 100,000 series at one sample in 10 s are 6 million.
MOST_LIVE = 10_000_000
# What is refused: checkpoints fail, as on a full disk.
MOST_UNSAVED = 4 * MOST_LIVE
MOST_SERIES = 2_000_000
# Ours: the largest sites run tens of thousands of jobs at a time, with those that wait for a
# checkpoint; those whose end never comes are over some time (lost_jobs.py).
MOST_JOBS, MOST_JOB_BYTES = 200_000, 1 << 30
MOST_ENDED = 20_000  # that wait for a checkpoint
_IDLE_DAYS = 400  # how long a series without a sample is known where samples are kept for ever
_DAYS_KNOWN = 32  # of which the keys of jobs are in memory
_BATCH = 2_000  # jobs whose series are in memory at once while they are written


class FullError(Exception):
    """Nothing more is taken: too much could not be written, or there is too much of it."""


class DoubleError(RequestError):
    """A job that began, or ended, is said to do so again."""


@dataclass(frozen=True)
class Keeping:
    """How long things are kept, in days; 0: forever."""

    samples_days: int = 14
    jobs_days: int = 0


LimitsOf = Callable[[Mapping[str, Any]], Mapping[str, Mapping[str, float | None]]]


class Store:
    """A folder with jobs and samples. May be used by several threads."""

    def __init__(
        self,
        root: Path,
        keeping: Keeping | None = None,
        limits: LimitsOf | None = None,
        *,
        bucket: str = "",
        take_over: bool = False,
    ) -> None:
        """Open or make it, and read what a kill left in the log. Raises InputError, OSError.

        Jobs lie in `bucket` where there is one; `take_over` is another store's, which is gone.
        """
        self.root, self.keeping = root, keeping or Keeping()
        self._limits: LimitsOf = limits or (lambda row: {})
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock, self._sealing = threading.RLock(), threading.Lock()
        self._guard = (root / _LOCK).open("w")
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._guard.close()
            raise InputError(
                f"{root} is in use",
                why="another service writes to it",
                hint="A folder has one service at a time:  sightline cluster serve",
            ) from None
        try:
            self.disk = shelf.Folder(root)
            self.archive: shelf.Shelf = self.disk
            self._bucket: Bucket | None = None
            self._name = ""  # of this store, in the bucket
            if bucket:
                self._bucket, self._name = join_bucket(root, bucket, take_over=take_over)
                self.archive = self._bucket
            else:
                refuse_without(root)
            self._open()
        except BaseException:
            self._guard.close()
            raise

    def _open(self) -> None:
        self.changes = 0  # counts what changed which jobs there are
        self._dropped: set[str] = set()
        # Of days that were asked for: their files, and the keys of the jobs in them.
        self._keys: dict[tuple[str, str], tuple[list[str], set[str]]] = {}
        self._samples = Samples()
        self._older: Samples | None = None  # what a checkpoint is writing
        self._ended: dict[str, Known] = {}
        self.losses: list[str] = []  # what of the log could not be read, as sentences
        self._committed = 0
        held = self._read_checkpoint()
        known = (Series(*row) if row is not None else None for row in held["series"])
        self._series = SeriesTable(known, held.get("seen", ()), int(time.time()))
        self._running: dict[str, Known] = {}
        self._weights: dict[str, int] = {}  # bytes of what was said of each job in memory
        self._weight = 0
        for payload in held["running"]:
            self._begin_job(decode_known(payload), len(payload))
        self._journal = self._recover()

    # -- what comes in ------------------------------------------------------------------------

    def write_points(self, batch: Batch) -> None:
        """Keep the points of a batch; they are on the disk when this returns. Raises FullError."""
        if not batch.series:
            return
        times, values = batch.arrays()
        with self._lock:
            if self.live_samples + len(times) > MOST_UNSAVED:
                raise FullError("too many samples wait to be written to the disk")
            new = list(dict.fromkeys(s for s in batch.series if self._series.find(s) is None))
            if len(self._series) + len(new) > MOST_SERIES:
                raise FullError(f"there are {MOST_SERIES:,} series already")
            now_s = int(time.time())
            if new:
                given = self._series.list_next(len(new))
                note = json.dumps({"numbers": given, "rows": new})
                self._journal.append(_SERIES, note.encode())
                for number, one in zip(given, new, strict=True):
                    self._series.put(number, one, now_s)
            find = self._series.find
            numbers = np.array([find(s) for s in batch.series], np.int32)
            self._series.mark(numbers, now_s)
            ticket = self._journal.append(_POINTS, encode_samples(numbers, times, values))
            self._samples.add(numbers, times, values)
            journal = self._journal
        journal.sync(ticket)

    def start_job(self, document: Any) -> str:
        """A job began; its key. Raises RequestError, DoubleError (it is there), FullError."""
        known = read_start(document)
        payload = known.encode()
        with self._lock:
            if known.key in self._running or known.key in self._ended:
                raise DoubleError(f"job {known.row['job_id']} began already")
            if self._is_kept(known.key):
                raise DoubleError(f"job {known.row['job_id']} ended already")
            count = len(self._running) + len(self._ended)
            if count >= MOST_JOBS or self._weight + len(payload) > MOST_JOB_BYTES:
                told = format_several(count, "job")
                raise FullError(f"{told} running, or ended and not written yet")
            ticket = self._journal.append(_START, payload)
            self._begin_job(known, len(payload))
            self.changes += 1
        self._journal.sync(ticket)
        return known.key

    def stop_job(self, document: Any) -> str:
        """A job ended; its key. Raises RequestError where none of this number runs."""
        cluster, number, start, end, state = read_stop(document)
        with self._lock:
            found = [
                known
                for known in self._running.values()
                if known.row["job_id"] == number
                and (cluster is None or known.cluster == cluster)
                and (start is None or known.row["start_ns"] == start)
            ]
            if not found:
                raise RequestError(f"no job {number} runs")
            known = max(found, key=lambda one: one.row["start_ns"])
            if end < known.row["start_ns"]:
                raise RequestError("a job ends after it began")
            note = json.dumps({"key": known.key, "state": state, "end_ns": end}).encode()
            ticket = self._journal.append(_END, note)
            self._finish(known.key, state, end)
        self._journal.sync(ticket)
        return known.key

    def add_jobs(self, jobs: Iterable[tuple[str, Job]]) -> int:
        """Keep whole jobs that another archive has, by key; how many are new. Raises OSError."""
        added = 0
        batch: list[tuple[str, Job]] = []
        for key, job in jobs:
            batch.append((key, job))
            if len(batch) == _BATCH:
                added += self._add(batch)
                batch = []
        return added + (self._add(batch) if batch else 0)

    def _add(self, batch: list[tuple[str, Job]]) -> int:
        there = self._list_kept(
            {(split_key(k)[0], shelf.find_day(split_key(k)[2])) for k, _ in batch}
        )
        with self._lock:
            there |= self._running.keys() | self._ended.keys()
        new = {key: job for key, job in batch if is_key(key) and key not in there}
        if new:
            self.checkpoint(new)
        return len(new)

    # -- what is asked ------------------------------------------------------------------------

    @property
    def live_samples(self) -> int:
        """Samples in memory."""
        return self._samples.count + (self._older.count if self._older is not None else 0)

    @property
    def live_series(self) -> int:
        """Series that are known."""
        return len(self._series)

    @property
    def is_heavy(self) -> bool:
        """Whether so much is in memory that a checkpoint is due."""
        return self.live_samples > MOST_LIVE or len(self._ended) > MOST_ENDED

    def list_hosts(self, cluster: str) -> list[str]:
        """The nodes of a cluster that samples came from."""
        with self._lock:
            return self._series.list_hosts(cluster)

    def list_live(self) -> list[Known]:
        """Jobs that run, and those that ended and are in the log alone."""
        with self._lock:
            return [*self._running.values(), *self._ended.values()]

    def list_parts(self, kind: str, cluster: str = "", day: str = "") -> list[str]:
        """The Parquet files of a kind that count: of no checkpoint that is being written."""
        with self._lock:
            dropped, last = set(self._dropped), self._committed
        found = self._shelf_of(kind).list_parts(kind, cluster, day)
        return shelf.list_counted(found, last, dropped, self._gaps)

    def list_all(self) -> tuple[int, list[str], list[Known]]:
        """The number of `changes`, the files of jobs, and those in memory: all of one moment."""
        with self._lock:
            return self.changes, self.list_parts(shelf.JOBS), self.list_live()

    def list_known(self, keys: Iterable[str]) -> set[str]:
        """Those of some keys of which there is a job. Raises OSError."""
        wanted = {key for key in keys if is_key(key)}
        days = {(split_key(key)[0], shelf.find_day(split_key(key)[2])) for key in wanted}
        with self._lock:
            there = self._running.keys() | self._ended.keys()
        return wanted & (there | self._list_kept(days))

    def find_job(self, key: str) -> Job | None:
        """A job with all of its metrics; None where there is none of this key."""
        with self._lock:
            known = self._running.get(key) or self._ended.get(key)
        if known is not None:
            return self._assemble(known)
        return self._read_kept(key)

    def read_samples(
        self, cluster: str, hosts: Sequence[str], first_ns: int, last_ns: int
    ) -> pl.DataFrame:
        """All samples of some nodes in a span, sorted by node, metric, part and time."""
        if not is_cluster(cluster):  # it is a folder's name
            return empty_frame()
        with self._lock:
            numbers = self._series.list_of(cluster, hosts)
            held = [self._samples, *([self._older] if self._older is not None else [])]
            parts = [s.select(numbers, first_ns, last_ns) for s in reversed(held)]
        columns = [np.concatenate([part[n] for part in parts]) for n in range(3)]
        frames = [make_frame(self._series, *columns)] if len(columns[0]) else []
        files = [
            name
            for day in self.disk.list_days(shelf.SAMPLES, cluster, first_ns, last_ns)
            for name in self.list_parts(shelf.SAMPLES, cluster, day)
        ]
        if files:
            wanted = pl.col("host").is_in(list(hosts))
            wanted &= pl.col("time_ns").is_between(first_ns, last_ns)
            frames.insert(0, self.disk.read(files, wanted))
        if not frames:
            return empty_frame()
        keys = ["host", "metric", "scope", "element", "time_ns"]
        whole = pl.concat(frames)
        return whole.unique(keys, keep="last", maintain_order=True).sort(keys, maintain_order=True)

    # -- checkpoints --------------------------------------------------------------------------

    def checkpoint(
        self,
        more: Mapping[str, Job] | None = None,
        now_s: float | None = None,
        *,
        gently: bool = False,
    ) -> None:
        """Write what is in memory as Parquet, and drop the log up to here. Raises OSError.

        `gently`: beside what comes in, which goes before.
        """
        with self._sealing:
            with self._lock:
                number = self._journal.rotate()
                self._older, self._samples = self._samples, Samples()
                now_s = time.time() if now_s is None else now_s
                self._drop_idle(self._older, now_s)
                for key, end in list_lost(self._running.values(), round(now_s * 1e9)):
                    self._finish(key, STATE, end)
                ended = dict(self._ended)
                running = [known.encode() for known in self._running.values()]
                series, seen = list(self._series.rows), self._series.list_seen()
            try:
                self.remove_left()  # what a bucket that was away could not remove
                sealing.write_samples(self.disk, self._series, self._older, number, gently=gently)
                sealing.write_jobs(self.archive, number, {**(more or {}), **ended}, self._assemble)
                dropped = sealing.join_days(self.archive, number, self._dropped)
                # What the last one replaced is removed below: until then it must not count again.
                gone = [*dropped, *self._dropped]
                self.commit_state(number, series=series, seen=seen, running=running, dropped=gone)
            except BaseException:
                with self._lock:  # nothing is lost: all of it is in the log, and in memory
                    older, self._older = self._older, None
                    if older is not None and older.count:
                        self._samples.add(*older.columns())
                with contextlib.suppress(OSError):  # the next one does
                    self.remove_left()
                raise
            with self._lock:
                self._committed, self._older = number, None
                for key in ended:
                    del self._ended[key]
                    self._weight -= self._weights.pop(key, 0)
                old, self._dropped = self._dropped, set(dropped)
                self.changes += 1
            self._journal.drop(number)
            self.archive.remove(old)

    def drop_old(self, now_ns: int | None = None) -> int:
        """Remove the days that are kept no longer; how many there were."""
        today = datetime.fromtimestamp((now_ns or time.time_ns()) / 1e9, UTC).date()
        removed = 0
        with self._sealing:
            if self._bucket is not None:
                check_owner(self._bucket, self._name)
            for kind in shelf.KINDS:
                days = (
                    self.keeping.samples_days if kind == shelf.SAMPLES else self.keeping.jobs_days
                )
                if days:
                    before = today - timedelta(days=days)
                    removed += self._shelf_of(kind).remove_old(kind, before)
        with self._lock:
            self.changes += 1
        return removed

    def close(self) -> None:
        """Write a checkpoint, and let another process have the folder."""
        with contextlib.suppress(OSError):
            self.checkpoint()
        self._journal.close()
        self._guard.close()

    # -- inside -------------------------------------------------------------------------------

    def _read_checkpoint(self) -> dict[str, Any]:
        """The last one; files of none are removed."""
        place = self.root / sealing.CHECKPOINT
        held: dict[str, Any] = {"number": 0, "series": [], "running": [], "dropped": []}
        if place.is_file():
            held = sealing.unpack_checkpoint(place.read_bytes(), str(place))
        self._committed, self._gaps = held["number"], held.get("gaps", [])
        self.remove_left()
        self.archive.remove(held["dropped"])
        return held

    def _shelf_of(self, kind: str) -> shelf.Shelf:
        return self.archive if kind in shelf.OF_JOBS else self.disk

    def remove_left(self) -> None:
        """Files of a checkpoint that did not end, before another is written. Raises OSError."""
        if self._bucket is not None:
            check_owner(self._bucket, self._name)
            self._bucket.remove_later(self._committed, self._gaps)
        self.disk.remove_later(self._committed)

    def commit_state(self, number: int, **held: Any) -> None:
        """From now on the files of this number count: first in the bucket, where there is one."""
        about = {"number": number, "gaps": self._gaps, "store": self._name, **held}
        data = sealing.pack_checkpoint(about)
        if self._bucket is not None:
            commit_checkpoint(self._bucket, self._name, data)
        sealing.write_checkpoint(self.root, data)

    def _recover(self) -> Journal:
        """Read the log behind the checkpoint; the log to go on with."""
        folder, last = self.root / _JOURNAL, self._committed
        for number, path in list_files(folder):
            last = max(last, number)
            if number <= self._committed:
                path.unlink()
                continue
            gaps = []
            try:
                for record in read_records(path):
                    if isinstance(record, Gap):
                        gaps.append(record)
                    else:
                        self._replay(*record)
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{path} cannot be read",
                    why=f"{error}: a file of the log before it is damaged",
                    hint=f"What was sent since the last checkpoint is in {folder} alone. To go on "
                    "without it, move its files elsewhere.",
                ) from error
            self.losses += [keep_gaps(path, gaps)] if gaps else []
        return Journal(folder, last + 1)

    def _replay(self, kind: bytes, payload: bytes) -> None:
        if kind == _SERIES:
            held = json.loads(payload)
            numbers = held["numbers"] if "numbers" in held else itertools.count(held["first"])
            for number, row in zip(numbers, held["rows"], strict=False):
                self._series.put(number, Series(*row), int(time.time()))
        elif kind == _POINTS:
            numbers, times, values = decode_samples(payload)
            # Of a series that is not known here, or of another one: both are worse than no sample.
            if not self._series.has_all(numbers):
                raise ValueError("series are missing that samples are of")
            self._series.mark(numbers, int(time.time()))
            self._samples.add(numbers, times, values)
        elif kind == _START:
            self._begin_job(decode_known(payload), len(payload))
        elif kind == _END:
            note = json.loads(payload)
            if note["key"] in self._running:
                self._finish(note["key"], note["state"], note["end_ns"])

    def _begin_job(self, known: Known, weight: int) -> None:
        self._running[known.key] = known
        self._weight += weight - self._weights.get(known.key, 0)
        self._weights[known.key] = weight

    def _drop_idle(self, held: Samples, now_s: float) -> None:
        """Let go of series that nothing came of for as long as samples are kept.

        Of a day only where there are so many that new ones would soon be refused.
        """
        days = self.keeping.samples_days or _IDLE_DAYS
        if len(self._series) > MOST_SERIES // 2:
            days = 1
        self._series.drop_idle(int(now_s) - days * 86_400, held)

    def _finish(self, key: str, state: str, end_ns: int) -> None:
        known = self._running.pop(key)
        row = {**known.row, "state": state, "end_ns": end_ns}
        row["duration_ns"] = end_ns - row["start_ns"]
        self._ended[key] = replace(known, row=row)
        self.changes += 1

    def _assemble(self, known: Known) -> Job:
        end = known.row["end_ns"] or time.time_ns()
        frame = self.read_samples(known.cluster, known.hosts, known.row["start_ns"], end + 10**9)
        return self._judge_by_limits(make_job(known, make_uses(frame, known, end), {}, end))

    def _judge_by_limits(self, job: Job) -> Job:
        """With what is normal on its nodes, unless these are others."""
        limited = replace(job, limits=self._limits(job.row))
        return job if contradicts_limits(limited) else limited

    def _read_kept(self, key: str) -> Job | None:
        cluster, _, start = split_key(key)
        day = shelf.find_day(start)
        files = self.list_parts(shelf.JOBS, cluster, day)
        if not files:
            return None
        rows = self.archive.read(files, pl.col("job_key") == key)
        if rows.is_empty():
            return None
        row = {**rows.row(0, named=True), "cluster": cluster}
        nodes = tuple({"host": host} for host in row["hosts"] or ())
        uses = {}
        files = self.list_parts(shelf.COURSES, cluster, day)
        if files:
            uses = read_uses(self.archive.read(files, pl.col("job_key") == key))
        about = {"rank": 0, "recording_id": 0, "job_row_id": 0, **row}
        return self._judge_by_limits(Job(about, nodes, uses, {}))

    def _is_kept(self, key: str) -> bool:
        cluster, _, start = split_key(key)
        # A job that begins while the bucket is away is taken: it is hardly one that ended.
        with contextlib.suppress(OSError):
            return key in self._list_kept({(cluster, shelf.find_day(start))})
        return False

    def _list_kept(self, days: set[tuple[str, str]]) -> set[str]:
        """The keys of all jobs of some days. Raises OSError."""
        found: set[str] = set()
        for day in sorted(days):
            files = self.list_parts(shelf.JOBS, *day)
            held = self._keys.get(day)
            if held is None or held[0] != files:
                rows = self.archive.read(files, columns=["job_key"]) if files else pl.DataFrame()
                held = files, set(rows.get_column("job_key")) if files else set()
                while len(self._keys) >= _DAYS_KNOWN:
                    self._keys.pop(next(iter(self._keys)), None)
                self._keys[day] = held
            found |= held[1]
        return found
