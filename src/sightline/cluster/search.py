"""Which jobs there are: filtered, sorted and summed by DuckDB over the store's Parquet.

Every value that a person typed is a parameter of the statement; names of columns are looked up in
lists here and never taken from a request.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.cluster.index import Index
from sightline.cluster.running import Running
from sightline.cluster.store import Store
from sightline.cluster.verdicts import FOOTPRINT
from sightline.errors import RequestError

# By what a list is sorted: its column.
SORTS = {
    "start": "start_ns", "length": "duration_ns", "gpu-hours": "gpu_hours",
    "core-hours": "core_hours", "wasted": "wasted_gpu_hours", "wasted-cores": "wasted_core_hours",
    "gpu": "gpu_used_pct", "cpu": "cpu_used_pct", "memory": "memory_used_pct", "nodes": "nodes",
    "job": "job_id", "user": "user", "problems": "problems", "energy": "used_energy_j",
}  # fmt: skip
_EXACT = ("user", "project", "cluster", "partition", "state", "application", "gpu_type")
_OWNERS = ("user", "project", "cluster", "partition", "application")
MOST_ROWS = 1_000
_SUMS = (
    "count(*) AS jobs, count(*) FILTER (problems > 0) AS with_problems, "
    "sum(gpu_hours) AS gpu_hours, sum(wasted_gpu_hours) AS wasted_gpu_hours, "
    "sum(core_hours) AS core_hours, sum(wasted_core_hours) AS wasted_core_hours, "
    "sum(used_energy_j) AS energy_j, sum(wasted_energy_j) AS wasted_energy_j"
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """Which jobs. Empty means all; times are ns since 1970. `only_*` is what a person may see."""

    exact: tuple[tuple[str, str], ...] = ()
    text: str = ""
    rule: str = ""
    keys: tuple[str, ...] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    least_s: float | None = None
    running: bool | None = None
    only_user: str | None = None
    only_projects: tuple[str, ...] = ()


def write_condition(wanted: Wanted) -> tuple[str, list[Any]]:
    """A WHERE clause and its parameters."""
    parts: list[str] = []
    values: list[Any] = []
    for column, value in wanted.exact:
        if column not in _EXACT:
            raise RequestError("jobs cannot be filtered by that")
        parts.append(f'"{column}" = ?')
        values.append(value)
    if wanted.text:
        parts.append("(job_id = ? OR contains(lower(name), lower(?)) OR list_contains(hosts, ?))")
        values += [wanted.text] * 3
    if wanted.rule:
        parts.append("worst_rule = ?")
        values.append(wanted.rule)
    if wanted.keys is not None:
        parts.append("list_contains(?::VARCHAR[], job_key)")
        values.append(list(wanted.keys))
    for bound, part in (
        (wanted.since_ns, "start_ns >= ?"),
        (wanted.until_ns, "start_ns < ?"),
        (None if wanted.least_s is None else round(wanted.least_s * 1e9), "duration_ns >= ?"),
    ):
        if bound is not None:
            parts.append(part)
            values.append(bound)
    if wanted.running is not None:
        parts.append("end_ns IS NULL" if wanted.running else "end_ns IS NOT NULL")
    own = []
    if wanted.only_user is not None:
        own.append('"user" = ?')
        values.append(wanted.only_user)
        if wanted.only_projects:
            own.append("list_contains(?::VARCHAR[], project)")
            values.append(list(wanted.only_projects))
    if own:
        parts.append(f"({' OR '.join(own)})")
    return (f"WHERE {' AND '.join(parts)}" if parts else "", values)


class Search:
    """Questions about the jobs of a store. May be asked by several threads."""

    def __init__(self, store: Store, running: Running | None = None, memory: str = "512MB") -> None:
        """Raises RequestError where DuckDB is not installed."""
        self._store = store
        self._index = Index(store.root, memory, store.archive)
        self._lock = threading.Lock()
        self._running = running or Running(store)
        self._seen: tuple[int, int] | None = None

    def close(self) -> None:
        """Let go of what DuckDB holds."""
        self._index.close()

    def list_jobs(
        self,
        wanted: Wanted,
        sort: str = "start",
        *,
        ascending: bool = False,
        most: int = 50,
        offset: int = 0,
    ) -> tuple[list[Row], int]:
        """Rows of `JOB_SCHEMA` with the cluster, and how many there are in all."""
        if sort not in SORTS:
            raise RequestError("jobs cannot be sorted by that", why=f"but by {', '.join(SORTS)}")
        if not (0 <= most <= MOST_ROWS and 0 <= offset <= 10**9):
            raise RequestError(f"at most {MOST_ROWS:,} jobs are listed at a time")
        where, values = write_condition(wanted)
        way = "ASC" if ascending else "DESC"
        with self._asking() as ask:
            count = ask(f"SELECT count(*) AS n FROM jobs {where}", values)[0]["n"]
            # Where they are first: of the other columns only the rows that are shown are read.
            places = ask(
                f"SELECT is_live, place FROM jobs {where} ORDER BY "
                f'"{SORTS[sort]}" {way} NULLS LAST, is_live, place LIMIT {most} OFFSET {offset}',
                values,
            )
            rows: dict[tuple[bool, int], Row] = {}
            for is_live, table in ((False, "kept"), (True, "live")):
                wanted_rows = [p["place"] for p in places if p["is_live"] == is_live]
                if wanted_rows:
                    listed = ", ".join(str(int(n)) for n in wanted_rows)
                    query = f"SELECT rowid AS place, * FROM {table} WHERE rowid IN ({listed})"
                    rows |= {(is_live, row.pop("place")): row for row in ask(query, [])}
        found = [rows[p["is_live"], p["place"]] for p in places]
        return [{k: v for k, v in row.items() if k != "part"} for row in found], int(count)

    def sum_by(self, wanted: Wanted, owner: str, most: int = 100) -> list[Row]:
        """A row each user, project, ...: jobs, hours and energy given and wasted; worst first."""
        if owner not in _OWNERS:
            raise RequestError("jobs cannot be summed by that")
        where, values = write_condition(wanted)
        return self._ask(
            f"SELECT coalesce(\"{owner}\", 'unknown') AS owner, {_SUMS} FROM jobs {where} "
            "GROUP BY 1 ORDER BY wasted_gpu_hours DESC, wasted_core_hours DESC, owner "
            f"LIMIT {min(most, MOST_ROWS)}",
            values,
        )

    def sum_all(self, wanted: Wanted) -> Row:
        """The same over all jobs that are wanted."""
        where, values = write_condition(wanted)
        return self._ask(f"SELECT {_SUMS} FROM jobs {where}", values)[0]

    def sum_rules(self, wanted: Wanted) -> list[Row]:
        """A row each rule that is the costliest of a job: jobs and hours."""
        where, values = write_condition(wanted)
        extra = "AND" if where else "WHERE"
        return self._ask(
            "SELECT worst_rule AS rule, count(*) AS jobs, sum(wasted_gpu_hours) AS gpu_hours, "
            f"sum(wasted_core_hours) AS core_hours FROM jobs {where} {extra} "
            "worst_rule IS NOT NULL GROUP BY 1 ORDER BY gpu_hours DESC, core_hours DESC, rule",
            values,
        )

    def find_most(self, cluster: str, metrics: Sequence[str]) -> dict[str, float]:
        """Of each metric the largest mean that a job of the cluster had: a scale to draw by."""
        known = [metric for metric in metrics if metric in FOOTPRINT]
        if not known:
            return {}
        listed = ", ".join(f'max("mean_{metric}") AS "{metric}"' for metric in known)
        row = self._ask(f"SELECT {listed} FROM jobs WHERE cluster = ?", [cluster])[0]
        return {name: value for name, value in row.items() if value}

    def list_clusters(self) -> list[str]:
        """The clusters that have jobs."""
        return [row["cluster"] for row in self._ask("SELECT DISTINCT cluster FROM jobs", [])]

    def list_values(self, column: str, wanted: Wanted) -> list[str]:
        """What a column has, the most frequent first: for a form's choices."""
        if column not in _EXACT:
            raise RequestError("jobs cannot be filtered by that")
        where, values = write_condition(wanted)
        rows = self._ask(
            f'SELECT "{column}" AS v, count(*) AS n FROM jobs {where} GROUP BY 1 '
            "ORDER BY n DESC, v LIMIT 200",
            values,
        )
        return [row["v"] for row in rows if row["v"] is not None]

    def find(self, key: str) -> Row | None:
        """The row of one job."""
        rows = self._ask("SELECT * FROM jobs WHERE job_key = ?", [key])
        return rows[0] if rows else None

    def _ask(self, query: str, values: Sequence[Any]) -> list[Row]:
        with self._asking() as ask:
            return ask(query, values)

    def _tell_damaged(self) -> None:
        for name, why in self._index.damaged.items():
            text = f"{name} cannot be read, and the jobs in it are not shown: {why}"
            if text not in self._store.losses:
                self._store.losses.append(text)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Callable[[str, Sequence[Any]], list[Row]]]:
        """A function that asks, of one state of the tables for as long as the block lasts."""
        with self._lock:
            seen = (self._store.changes, self._running.version)
            if self._seen != seen:
                changes, files, live = self._store.list_all()
                try:
                    self._index.update(files, self._running.list_rows(live))
                    self._seen = (changes, seen[1])
                    self._tell_damaged()
                except OSError:
                    if self._seen is None:
                        raise
                    # A bucket is away: what is known of it stands until it is there again.
            cursor = self._index.begin()
        try:
            yield lambda query, values: _fetch(cursor, query, values)
        finally:
            cursor.close()


def _fetch(cursor: Any, query: str, values: Sequence[Any]) -> list[Row]:
    cursor.execute(query, list(values))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
