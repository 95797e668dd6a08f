"""A job's metrics over time, from samples of its nodes: on a grid, a row each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sightline.cluster.documents import Known
from sightline.subjects.jobs.job import GPU, Job, Use, make_use

# Ours: values of one metric that are held at once, 240 MB.
_MOST_VALUES = 30_000_000
# Of all metrics of a job together, 800 MB: one may have begun long ago, or be said to have.
MOST_OF_JOB = 100_000_000
_LEAST_STEP_NS = 10**9
_EDGE_NS = 10**9  # a sample of the second in which a job ended is its own
SCHEMA = {
    "job_key": pl.String, "metric": pl.String, "scope": pl.String, "host": pl.String,
    "element": pl.String, "start_ns": pl.Int64, "step_ns": pl.Int64,
    "values": pl.List(pl.Float64),
}  # fmt: skip
Uses = dict[tuple[str, str], Use]
Parts = Mapping[str, Mapping[str, Sequence[str]]]


def make_job(known: Known, uses: Uses, limits: Mapping[str, Any], end_ns: int) -> Job:
    """The job as rules and pages ask it; one that runs lasts until `end_ns`."""
    row = dict(known.row)
    end = row["end_ns"] or end_ns
    row["duration_ns"] = max(0, end - row["start_ns"])
    return Job(row, tuple(known.nodes), uses, limits)


def make_uses(frame: pl.DataFrame, known: Known, end_ns: int) -> Uses:
    """Of each metric and scope its values on a grid of the usual time between samples.

    `frame` has host, metric, scope, element, time_ns, value, sorted so; what is of GPUs and
    hardware threads that the job was not given is left out, where it is said which it was.
    """
    start = int(known.row["start_ns"])
    frame = _keep_own(frame, known.parts).filter(
        (pl.col("time_ns") >= start) & (pl.col("time_ns") <= end_ns + _EDGE_NS)
    )
    found: Uses = {}
    several = max(1, frame.select("metric", "scope").unique().height)
    most = min(_MOST_VALUES, MOST_OF_JOB // several)
    for (metric, scope), rows in frame.group_by("metric", "scope", maintain_order=True):
        use = _put_on_grid(rows, start, end_ns, most)
        found[str(metric), GPU if scope == "accelerator" else str(scope)] = use
    return found


def _keep_own(frame: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """Without the GPUs and hardware threads of others on the same node."""
    for scope in ("accelerator", "hwthread"):
        owned = [(h, e) for h, own in parts.items() for e in own.get(scope, ())]
        if not owned:
            continue
        named = pl.DataFrame(owned, schema=["host", "element"], orient="row").unique()
        of_scope = frame.filter(pl.col("scope") == scope)
        own = of_scope.join(named, on=["host", "element"], how="semi", maintain_order="left")
        # Where no name fits, monitoring and scheduler call the parts differently: all are shown.
        if own.height:
            frame = pl.concat([frame.filter(pl.col("scope") != scope), own])
    return frame.sort("metric", "scope", "host", "element", "time_ns", maintain_order=True)


def _put_on_grid(rows: pl.DataFrame, start: int, end: int, most: int) -> Use:
    times = rows.get_column("time_ns").to_numpy()
    values = rows.get_column("value").to_numpy()
    heads = rows.select("host", "element").with_columns(run=pl.struct("host", "element").rle_id())
    place = heads.get_column("run").to_numpy()
    names = heads.unique("run", keep="first", maintain_order=True)
    places = tuple((h, e or None) for h, e in names.select("host", "element").iter_rows())
    step = find_step(times, place)
    columns = max(1, (end - start) // step + 1)
    while columns > 1 and columns * len(places) > most:
        step *= 2
        columns = max(1, (end - start) // step + 1)
    at = np.minimum((times - start) // step, columns - 1) + place.astype(np.int64) * columns
    size = columns * len(places)
    seen = np.bincount(at, minlength=size)
    sums = np.bincount(at, weights=values, minlength=size)
    grid = np.where(seen > 0, sums / np.maximum(seen, 1), np.nan).reshape(len(places), columns)
    return make_use(places, grid, step / 1e9)


def find_step(times: np.ndarray, place: np.ndarray) -> int:
    """The usual time between samples of a series, in ns; a minute of a single one."""
    gaps = np.diff(times)[np.diff(place) == 0]
    gaps = gaps[gaps > 0]
    step = int(np.median(gaps)) if gaps.size else 60 * 10**9
    return max(round(step / 10**9) * 10**9, _LEAST_STEP_NS)


def list_courses(key: str, job: Job) -> list[tuple[Any, ...]]:
    """Rows of `SCHEMA`: a series each place."""
    start = int(job.row["start_ns"] or 0)
    return [
        (key, metric, scope, host, element, start, round(use.step_s * 1e9), use.values[n])
        for (metric, scope), use in job.uses.items()
        if use.values is not None and use.step_s > 0
        for n, (host, element) in enumerate(use.places)
    ]


def read_uses(rows: pl.DataFrame) -> Uses:
    """Of rows of `SCHEMA`: what `list_courses` was given."""
    found: Uses = {}
    for (metric, scope), own in rows.group_by("metric", "scope", maintain_order=True):
        values = [np.asarray(one, np.float64) for one in own.get_column("values").to_list()]
        longest = max(map(len, values), default=0)
        grid = np.full((len(values), longest), np.nan)
        for n, one in enumerate(values):
            grid[n, : len(one)] = one
        places = tuple(own.select("host", "element").iter_rows())
        found[str(metric), str(scope)] = make_use(places, grid, own.item(0, "step_ns") / 1e9)
    return found
