"""A history of runs: Parquet files in a folder.

    runs/*.parquet     a row per run: when it was added, its labels, its GPUs, its fingerprint
    values/*.parquet   a row per run and metric

A run that is added is two new files, so several may add at once; many small files are merged into
one now and then. Whatever reads counts each `run_id` once, so that files which a merge left twice
change nothing. DuckDB, Polars and pandas read the folders as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sightline.compare.fingerprint import parse_fingerprint, write_fingerprint
from sightline.compare.sample import Sample
from sightline.core.algebra.change_points import find_changes
from sightline.core.model.store import READ_FAILURES
from sightline.errors import InputError, MissingDataError, RequestError

SCHEMA = "sightline-history/1"
RUNS: dict[str, Any] = {
    "run_id": pl.String,
    "added_ns": pl.Int64,
    "name": pl.String,
    "labels": pl.String,
    "gpu": pl.String,
    "devices": pl.Int64,
    "steps": pl.Int64,
    "fingerprint": pl.String,
}
VALUES: dict[str, Any] = {"run_id": pl.String, "metric": pl.String, "value": pl.Float64}
# Files are opened one by one, 0.1 ms each: so many are merged at once, but no file that holds more
# runs than this, so that merging costs no more the longer the history is.
_MANY_FILES, _LARGE_RUNS = 64, 4096
_RETRIES = 3  # of reading, while somebody else merges


@dataclass(frozen=True)
class Point:
    """One commit of a series, or one run without a label: the geometric mean of its runs."""

    label: str
    added_ns: int
    value: float
    runs: int


def add_run(
    folder: Path,
    sample: Sample,
    labels: Mapping[str, str],
    added_ns: int,
    *,
    more: Mapping[str, float] | None = None,
    many_files: int = _MANY_FILES,
    large_runs: int = _LARGE_RUNS,
) -> str:
    """Put a run into a history; its id. The same run with the same labels is there once.

    `more` are metrics that are not the recording's own.
    `added_ns` orders the history, ns since 1970. More than `many_files` small files become one,
    which stays as it is once it has `large_runs`. Raises InputError where the folder cannot be
    written.
    """
    fingerprint = write_fingerprint(sample)
    told = json.dumps(dict(sorted(labels.items())), ensure_ascii=False)
    run_id = hashlib.blake2b(fingerprint + told.encode(), digest_size=8).hexdigest()
    row = {
        "run_id": run_id,
        "added_ns": added_ns,
        "name": Path(sample.name).name,
        "labels": told,
        "gpu": " and ".join(sample.facts.devices),
        "devices": sample.devices,
        "steps": sample.length.count,
        "fingerprint": fingerprint.decode(),
    }
    kept = parse_fingerprint(fingerprint, sample.name)
    metrics = {**list_metrics(kept), **(more or {})}
    values = [(run_id, metric, value) for metric, value in metrics.items()]
    # A run counts once it stands in runs/, which is written last.
    _write(folder / "values", run_id, pl.DataFrame(values, schema=VALUES, orient="row"))
    _write(folder / "runs", run_id, pl.DataFrame([row], schema=RUNS))
    for name in ("values", "runs"):
        _merge_files(folder / name, many_files, large_runs)
    return run_id


def list_metrics(sample: Sample) -> dict[str, float]:
    """What a history keeps of a run: means of its steps, times in ns.

    step_ns, PART_ns, idle:CAUSE, kernel:FAMILY, and what `compare` shows beside the step.
    """
    share = pl.col("own_ns").sum() / sample.count
    parts = sample.leaves.group_by("part").agg(share)
    busy = pl.col("part").is_in(["compute", "exposed_comm", "exposed_copy", "unknown", "operators"])
    names = (
        sample.leaves.with_columns(
            metric=pl.when(busy)
            .then(pl.format("kernel:{}", "name"))
            .when(pl.col("part") == "idle")
            .then(pl.format("idle:{}", "name"))
        )
        .drop_nulls("metric")
        .group_by("metric")
        .agg(share)
    )
    return {
        "step_ns": sample.step_ns,
        **{f"{part}_ns": own for part, own in sorted(parts.iter_rows())},
        **{name.replace(" ", "_"): v for name, v in sorted(sample.facts.metrics.items())},
        **dict(sorted(names.iter_rows())),
    }


def read_runs(folder: Path, where: Mapping[str, str]) -> pl.DataFrame:
    """The runs of a history in order, without their fingerprints.

    `where` are labels, or `gpu`, that they must have. Raises InputError, MissingDataError.
    """
    rows = _read(folder / "runs", [c for c in RUNS if c != "fingerprint"])
    for key, value in where.items():
        has = pl.col("gpu") if key == "gpu" else _label(key)
        rows = rows.filter(has == value)
    if rows.is_empty():
        told = " and ".join(f"{k}={v}" for k, v in where.items())
        raise MissingDataError(f"no run in {folder} has {told}" if told else f"{folder} is empty")
    return rows.sort("added_ns", "run_id")


def read_fingerprints(folder: Path, commit: str) -> list[Sample]:
    """The runs of a commit, by their fingerprints, in the order in which they were added."""
    if not (folder / "runs").is_dir():
        return []
    rows = _read(folder / "runs", list(RUNS)).filter(_label("commit") == commit)
    return [
        parse_fingerprint(text.encode(), f"{name} of {commit[:12]}")
        for name, text in rows.sort("added_ns", "run_id").select("name", "fingerprint").iter_rows()
    ]


def read_series(folder: Path, metric: str, where: Mapping[str, str], by: str) -> list[Point]:
    """A metric over the history: a point for each run, or neighbors of one label `by` together.

    `metric` is one of `list_metrics`, or kernel:PATTERN, the sum of those that match. Raises
    InputError, MissingDataError, and RequestError where the runs are of several machines.
    """
    runs = read_runs(folder, where)
    machines = runs.select("gpu", "devices").unique().sort("gpu", "devices")
    if machines.height > 1:
        names = [f"{devices} × {gpu or 'no GPU'}" for gpu, devices in machines.iter_rows()]
        raise RequestError(
            f"{folder} holds runs of several machines",
            why=f"{', '.join(names)}: their times do not form a series",
            hint=f"Choose one:  --where {_suggest(machines)}",
        )
    values = _read_metric(folder, metric)
    rows = (
        runs.with_columns(label=_label(by))
        .join(values, on="run_id", maintain_order="left")
        .with_columns(pl.coalesce("label", "name").alias("shown"))
        # A run without the label is a point of its own.
        .with_columns(key=pl.coalesce("label", "run_id").rle_id())
    )
    if rows.is_empty():
        raise _no_metric(folder, metric)
    is_log = bool((rows.get_column("value") > 0).all())
    mean = pl.col("value").log().mean().exp() if is_log else pl.col("value").mean()
    # Of one run the value itself, to the last digit.
    value = pl.when(pl.len() == 1).then(pl.col("value").first()).otherwise(mean).alias("value")
    points = rows.group_by("key", maintain_order=True).agg(
        pl.col("shown").first(), pl.col("added_ns").first(), value, runs=pl.len()
    )
    return [Point(*row) for row in points.drop("key").iter_rows()]


def describe_series(
    folder: Path, metric: str, where: Mapping[str, str], by: str, last: int
) -> dict[str, Any]:
    """The last points of a series and its changes, as data: what every view of it shows.

    A change lies between the points `before` and `after` of the best place; the range from which
    it cannot be told apart is `first` to `last`, each the label of a point.
    """
    points = read_series(folder, metric, where, by)[-last:]
    changes = find_changes([point.value for point in points])
    return {
        "schema": SCHEMA,
        "metric": metric,
        "by": by,
        "points": [asdict(point) for point in points],
        "changes": [
            {
                "at": change.at,
                "before": points[change.at - 1].label,
                "after": points[change.at].label,
                "first": points[change.first - 1].label,
                "last": points[change.last].label,
                "before_value": change.before,
                "after_value": change.after,
                "ratio": change.ratio,
                "p_value": change.p_value,
                "went_away": change.went_away,
            }
            for change in changes
        ],
    }


def list_names(folder: Path, runs: Sequence[str] | None = None) -> list[str]:
    """The metrics that any run of a history has, or any of these runs."""
    rows = _read(folder / "values", ["run_id", "metric"], once=False)
    if runs is not None:
        rows = rows.filter(pl.col("run_id").is_in(list(runs)))
    return sorted(rows.get_column("metric").unique())


def _suggest(machines: pl.DataFrame) -> str:
    if machines.get_column("gpu").n_unique() > 1:
        return f"gpu='{machines.item(0, 'gpu')}'"
    return "LABEL=VALUE, of runs with as many GPUs"


def _read_metric(folder: Path, metric: str) -> pl.DataFrame:
    """Columns run_id and value."""
    name = pl.col("metric")
    if metric.startswith("kernel:"):
        try:
            re.compile(metric.removeprefix("kernel:"))
        except re.error as error:
            raise RequestError(f"'{metric}' holds no pattern", why=str(error)) from error
        wanted = name.str.starts_with("kernel:") & name.str.slice(7).str.contains(metric[7:])
    else:
        wanted = name == metric
    rows = _read(folder / "values", list(VALUES), wanted)
    return rows.group_by("run_id").agg(pl.col("value").sum())


def _no_metric(folder: Path, metric: str) -> MissingDataError:
    from sightline.core import registry

    names = list_names(folder)
    return MissingDataError(
        f"no run in {folder} has '{metric}'",
        why=registry.did_you_mean(metric, names),
        hint="What there is:  sightline history list --metrics",
    )


def _label(key: str) -> pl.Expr:
    # A path of JSON in which the key is a text: a label may be called anything.
    quoted = json.dumps(key)
    return pl.col("labels").str.json_path_match(f"$[{quoted}]")


# -- files ----------------------------------------------------------------------------------------


def _read(
    folder: Path, columns: Sequence[str], wanted: pl.Expr | None = None, *, once: bool = True
) -> pl.DataFrame:
    """Columns of all files of a folder, each row once. Raises InputError."""
    key = [c for c in ("run_id", "metric") if c in columns]
    for attempt in range(_RETRIES):
        files = sorted(folder.glob("*.parquet"))
        if not files:
            break
        rows = pl.scan_parquet(files, glob=False)
        try:
            found = (rows if wanted is None else rows.filter(wanted)).select(columns).collect()
        except READ_FAILURES as error:
            # Somebody may have merged files in the meantime.
            if attempt + 1 < _RETRIES and not all(file.exists() for file in files):
                continue
            raise InputError(
                f"cannot read the history {folder.parent}", why=str(error).splitlines()[0]
            ) from error
        return found.unique(key, keep="first", maintain_order=True) if once else found
    there = folder.parent.exists()
    raise InputError(
        f"{folder.parent} holds no history of runs"
        if there
        else f"there is no history yet: {folder.parent} does not exist",
        hint=f"Begin one:  sightline history add RUN --history {folder.parent}",
    )


def _write(folder: Path, name: str, rows: pl.DataFrame) -> None:
    """A file that appears whole or not at all. Raises InputError."""
    part = folder / f".{name}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(part, compression="zstd")
        part.replace(folder / f"{name}.parquet")
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise InputError(
            f"cannot write {folder}", why=(error.strerror or str(error)).lower()
        ) from error


def _merge_files(folder: Path, many_files: int, large_runs: int) -> None:
    """Small files as one, where there are many of them."""
    files = [f for f in sorted(folder.glob("*.parquet")) if not f.stem.startswith("full-")]
    if len(files) <= many_files:
        return
    # Somebody else may merge the same files at this moment: then it is done.
    with contextlib.suppress(*READ_FAILURES):
        rows = pl.concat([pl.read_parquet(f) for f in files])
        rows = rows.unique(maintain_order=True)
        ids = rows.get_column("run_id").unique().sort()
        digest = hashlib.blake2b("".join(ids).encode(), digest_size=8).hexdigest()
        head = "full" if ids.len() >= large_runs else "merged"
        order = [c for c in ("metric", "run_id") if c in rows.columns]
        _write(folder, f"{head}-{digest}", rows.sort(order))
        for file in files:
            if file.stem != f"merged-{digest}":
                file.unlink(missing_ok=True)
