"""Jobs that run, judged now and then: all of their samples are read for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from sightline.cluster.courses import make_job
from sightline.cluster.documents import Known
from sightline.cluster.store import Store
from sightline.cluster.verdicts import JOB_SCHEMA, describe
from sightline.subjects.jobs.job import Job

_SCHEMA: dict[str, Any] = {**JOB_SCHEMA, "cluster": pl.String}
# Of ten parts of the time one is spent on it, however many jobs run.
_REST = 9
_PERIOD_S = 60.0

Seen = Callable[[str, Job, list[dict[str, Any]]], None]


class Running:
    """What is known of jobs that are not kept yet, as rows of `JOB_SCHEMA`, and their problems."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.version = 0

    def refresh(self, seen: Seen | None = None) -> float:
        """Judge all of them anew; seconds until the next time. `seen` is told of each."""
        began = time.monotonic()
        rows = {}
        for known in self._store.list_live():
            job = self._store.find_job(known.key)
            if job is None:
                continue
            row, problems = describe(known.key, job)
            rows[known.key] = {**row, "cluster": known.cluster}
            if seen is not None:
                seen(known.key, job, problems)
        with self._lock:
            self._rows = rows
            self.version += 1
        return max(_PERIOD_S, _REST * (time.monotonic() - began))

    def list_rows(self, live: Iterable[Known]) -> pl.DataFrame:
        """The rows of these jobs; of one that was not judged yet what its start says."""
        with self._lock:
            known = self._rows
        rows = []
        for one in live:
            row = known.get(one.key)
            if row is None or row["state"] != one.row["state"]:
                job = make_job(one, {}, {}, time.time_ns())
                row = {**describe(one.key, job)[0], "cluster": one.cluster}
            rows.append(row)
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
