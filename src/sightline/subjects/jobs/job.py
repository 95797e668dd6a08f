"""A job with all that is known of its metrics: series where they are there, else means.

What judges ask is `Job.find_use`: a metric's values of each node, core or GPU. They do not know
which tool recorded them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sightline.core.job_metrics import METRICS, SUM
from sightline.core.model.run import Run

NODE, GPU = "node", "accelerator"
_KEYS = ("job_row_id", "metric", "scope", "host", "element")


@dataclass(frozen=True)
class Use:
    """A metric of a job: of each place its mean, least and most, and its values if there are any.

    `places` are (host, element). `values` has a row of each place and a column of each sample,
    NaN where one is missing; None of means alone. `step_s` is the time between samples.
    """

    places: tuple[tuple[str | None, str | None], ...]
    avg: np.ndarray
    least: np.ndarray
    most: np.ndarray
    values: np.ndarray | None = None
    step_s: float = 0.0

    @property
    def mean(self) -> float:
        """Over all places."""
        return _mean(self.avg)

    @property
    def peak(self) -> float | None:
        """The largest value of any place; None where it is not known."""
        known = self.most[~np.isnan(self.most)]
        return float(known.max()) if known.size else None


@dataclass(frozen=True)
class Job:
    """A job: its row of `jobs`, its nodes, metrics by (metric, scope), and what is normal there."""

    row: Mapping[str, Any]
    nodes: tuple[Mapping[str, Any], ...] = ()
    uses: Mapping[tuple[str, str], Use] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it ran; 0 where that is not known."""
        return (self.row["duration_ns"] or 0) / 1e9

    @property
    def has_series(self) -> bool:
        """Whether any metric is known over time."""
        return any(use.values is not None for use in self.uses.values())

    def count(self, what: str) -> int:
        """Nodes, cpus or gpus that it was given; 0 where that is not known."""
        return int(self.row[what] or 0)

    def find_use(self, metric: str, scope: str = NODE) -> Use | None:
        """A metric of each node, or of each GPU; of each node also from finer parts."""
        if (metric, scope) in self.uses:
            return self.uses[metric, scope]
        finer = [s for m, s in self.uses if m == metric and s != GPU]
        return _sum_parts(metric, self.uses[metric, finer[0]]) if scope == NODE and finer else None

    def find_parts(self, metric: str) -> Use | None:
        """A metric of each core or hardware thread, where it is known of them."""
        for scope in ("hwthread", "core"):
            if (metric, scope) in self.uses:
                return self.uses[metric, scope]
        return None


def drop_series(job: Job) -> Job:
    """The same job as who knows only its means has it: what rules on averages are compared with."""
    flat = {}
    for key, use in job.uses.items():
        one = np.array([_mean(use.avg)])
        flat[key] = Use(
            ((None, None),), one, _fold(use.least, np.nanmin), _fold(use.most, np.nanmax)
        )
    return replace(job, uses=flat)


def list_jobs(run: Run) -> list[Job]:
    """All jobs of a run, in the order in which they were recorded; made once."""
    return run.once(_make_jobs)


def _make_jobs(run: Run) -> list[Job]:
    return list(_read_jobs(run))


def _read_jobs(run: Run) -> Iterator[Job]:
    jobs = run.table("jobs")
    nodes = _group(run.table("job_nodes"))
    uses = _list_means(run)
    for number, own in _list_series(run).items():
        uses[number] = {**uses.get(number, {}), **own}
    limits = Limits(run.table("metric_limits"))
    for row in jobs.iter_rows(named=True):
        number = row["job_row_id"]
        job = Job(row, tuple(nodes.get(number, ())), uses.get(number, {}), limits.find(row))
        yield replace(job, limits={}) if contradicts_limits(job) else job


def contradicts_limits(job: Job) -> bool:
    """Whether it used more than its nodes have: then the limits are those of other nodes."""
    return any(
        (use := job.find_use(metric)) is not None and peak and float(np.nanmax(use.avg)) > peak
        for metric in ("mem_bw", "mem_used", "flops_any")
        if (peak := job.limits.get(metric, {}).get("peak")) is not None
    )


class Limits:
    """What is normal on clusters: of a part of one before all of it."""

    def __init__(self, table: pl.DataFrame) -> None:
        self._by: dict[tuple[str | None, str | None], dict[str, dict[str, float | None]]] = {}
        for row in table.iter_rows(named=True):
            held = self._by.setdefault((row["cluster"], row["sub_cluster"]), {})
            held[row["metric"]] = {key: row[key] for key in ("peak", "normal", "caution", "alert")}

    def find(self, job: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
        """Peak, normal, caution and alert of each metric on the nodes of a job."""
        whole = self._by.get((job["cluster"], None), {})
        return {**whole, **self._by.get((job["cluster"], job["sub_cluster"]), {})}


def _group(rows: pl.DataFrame) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(row["job_row_id"], []).append(row)
    return found


def _list_means(run: Run) -> dict[int, dict[tuple[str, str], Use]]:
    rows = run.table("job_means")
    if rows.is_empty():
        return {}
    parts = rows.group_by("job_row_id", "metric", "scope", maintain_order=True).agg(
        "host", "element", "avg", "min", "max"
    )
    found: dict[int, dict[tuple[str, str], Use]] = {}
    for job, metric, scope, hosts, elements, avg, least, most in parts.iter_rows():
        places = tuple(zip(hosts, elements, strict=True))
        use = Use(places, _floats(avg), _floats(least), _floats(most))
        found.setdefault(job, {})[metric, scope or NODE] = use
    return found


def _list_series(run: Run) -> dict[int, dict[tuple[str, str], Use]]:
    rows = run.table("job_series", [*_KEYS, "time_ns", "step_ns", "value"])
    if rows.is_empty():
        return {}
    rows = rows.sort(*_KEYS, "time_ns")
    values = rows.get_column("value").fill_null(float("nan")).to_numpy()
    heads = (
        rows.select(*_KEYS, "step_ns")
        .with_row_index("at")
        .with_columns(run=pl.struct(_KEYS).rle_id())
        .unique("run", keep="first", maintain_order=True)
    )
    starts = [*heads.get_column("at").to_list(), rows.height]
    held: dict[int, dict[tuple[str, str], list[tuple[Any, Any, float, np.ndarray]]]] = {}
    for n, (_, job, metric, scope, host, element, step, _run) in enumerate(heads.iter_rows()):
        one = (host, element, step / 1e9, values[starts[n] : starts[n + 1]])
        held.setdefault(job, {}).setdefault((metric, scope or NODE), []).append(one)
    return {job: {key: _stack(parts) for key, parts in own.items()} for job, own in held.items()}


def _stack(parts: list[tuple[Any, Any, float, np.ndarray]]) -> Use:
    """Series of several places as one array; shorter ones are filled with NaN."""
    longest = max(len(values) for *_, values in parts)
    stacked = np.full((len(parts), longest), np.nan)
    for row, (*_, values) in enumerate(parts):
        stacked[row, : len(values)] = values
    places = tuple((host, element) for host, element, *_ in parts)
    return make_use(places, stacked, parts[0][2])


def make_use(
    places: tuple[tuple[str | None, str | None], ...], values: np.ndarray, step_s: float
) -> Use:
    """A metric of values over time, with what they come to."""
    gaps = np.isnan(values)
    seen = (~gaps).sum(axis=1)
    avg = np.where(seen > 0, np.where(gaps, 0, values).sum(axis=1) / np.maximum(seen, 1), np.nan)
    least = np.where(seen > 0, np.where(gaps, np.inf, values).min(axis=1), np.nan)
    most = np.where(seen > 0, np.where(gaps, -np.inf, values).max(axis=1), np.nan)
    return Use(places, avg, least, most, values, step_s)


def _sum_parts(metric: str, use: Use) -> Use:
    """Cores or sockets of a node together: summed or averaged, as the metric adds up."""
    known = METRICS.get(metric)
    is_sum = known is not None and known.adds == SUM
    hosts = tuple(dict.fromkeys(host for host, _ in use.places))
    rows = [[i for i, (h, _) in enumerate(use.places) if h == host] for host in hosts]
    places = tuple((host, None) for host in hosts)
    if use.values is not None:
        fold = np.nansum if is_sum else _nanmean
        return make_use(places, np.array([fold(use.values[r], axis=0) for r in rows]), use.step_s)
    join = np.nansum if is_sum else _nanmean
    avg = np.array([join(use.avg[r], axis=0) for r in rows])
    return Use(places, avg, np.full(len(rows), np.nan), np.full(len(rows), np.nan))


def _nanmean(values: np.ndarray, axis: int = 0) -> Any:
    seen = (~np.isnan(values)).sum(axis=axis)
    return np.where(seen > 0, np.nansum(values, axis=axis) / np.maximum(seen, 1), np.nan)


def _floats(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _fold(values: np.ndarray, fold: Any) -> np.ndarray:
    known = values[~np.isnan(values)]
    return np.array([fold(known) if known.size else np.nan])
