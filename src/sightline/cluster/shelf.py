"""Parquet files by kind, cluster and day, which DuckDB, Polars and pandas open as they are.

KIND/cluster=NAME/day=2026-01-31/NUMBER.parquet, where NUMBER is that of the checkpoint which wrote
it. A file counts once its checkpoint is on the disk: after a kill, files of a later number are
removed, as all that is in them is in the log still.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from sightline.cluster.journal import sync_file, sync_folder

SAMPLES, JOBS, PROBLEMS, COURSES = "samples", "jobs", "problems", "courses"
KINDS = (SAMPLES, JOBS, PROBLEMS, COURSES)
_FILE = re.compile(r"(\d{12})\.parquet")
_DAY_NS = 86_400 * 10**9
# Rows of a group that is read or skipped as a whole: a job's page reads one or two of them.
_GROUP_ROWS = {SAMPLES: 100_000, JOBS: 20_000, PROBLEMS: 20_000, COURSES: 2_000}


def find_day(ns: int) -> str:
    """The day of a moment, UTC."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d")


def list_days(root: Path, kind: str, cluster: str, first_ns: int, last_ns: int) -> list[str]:
    """The days of a span, with both ends, of which a cluster has files."""
    first, last = find_day(first_ns), find_day(last_ns)
    folders = (root / kind / f"cluster={cluster}").glob("day=*")
    return sorted(day for f in folders if first <= (day := f.name.removeprefix("day=")) <= last)


def place_of(root: Path, kind: str, cluster: str, day: str) -> Path:
    """The folder of a day; the cluster's name is one that `names.is_cluster` lets through."""
    return root / kind / f"cluster={cluster}" / f"day={day}"


def write_part(
    root: Path, kind: str, cluster: str, day: str, number: int, rows: pl.DataFrame
) -> None:
    """Write the rows of a day, on the disk when this returns. Raises OSError."""
    folder = place_of(root, kind, cluster, day)
    is_new = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:012d}.parquet"
    rows.write_parquet(
        path, compression="zstd", compression_level=1, row_group_size=_GROUP_ROWS[kind]
    )
    sync_file(path)
    sync_folder(folder)
    if is_new:
        sync_folder(folder.parent)
        sync_folder(folder.parent.parent)


def list_parts(root: Path, kind: str, cluster: str = "*", day: str = "*") -> list[Path]:
    """The files of a kind, of a cluster and day if they are named, oldest first."""
    found = (root / kind).glob(f"cluster={cluster}/day={day}/*.parquet")
    return sorted(path for path in found if _FILE.fullmatch(path.name))


def remove_later(root: Path, number: int) -> int:
    """Remove files of checkpoints that did not end; how many there were."""
    later = [path for kind in KINDS for path in list_parts(root, kind) if int(path.stem) > number]
    for path in later:
        path.unlink()
    return len(later)


def remove_old(root: Path, kind: str, before: date) -> int:
    """Remove the days before one; how many there were."""
    removed = 0
    for folder in (root / kind).glob("cluster=*/day=*"):
        try:
            day = date.fromisoformat(folder.name.removeprefix("day="))
        except ValueError:
            continue
        if day < before:
            shutil.rmtree(folder)
            removed += 1
    return removed


def find_scattered(root: Path, kind: str, most: int) -> Iterator[tuple[str, str, list[Path]]]:
    """Cluster, day and files of the days that have more than some files."""
    for folder in sorted((root / kind).glob("cluster=*/day=*")):
        files = sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
        if len(files) > most:
            yield (
                folder.parent.name.removeprefix("cluster="),
                folder.name.removeprefix("day="),
                files,
            )


def scan_parts(files: list[Path]) -> pl.LazyFrame:
    """The rows of some files, none of which is read before it is asked for."""
    options: dict[str, Any] = {"hive_partitioning": False, "glob": False}
    return pl.scan_parquet(files, **options)
