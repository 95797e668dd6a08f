"""Parquet files by kind, cluster and day, which DuckDB, Polars and pandas open as they are.

KIND/cluster=NAME/day=2026-01-31/NUMBER.parquet, where NUMBER is that of the checkpoint which wrote
it. A file counts once its checkpoint is on the disk: after a kill, files of a later number are
removed, as all that is in them is in the log still. A shelf is a folder, or a bucket (bucket.py);
its files are called by their names in it.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl

from sightline.cluster.journal import sync_file, sync_folder

SAMPLES, JOBS, PROBLEMS, COURSES = "samples", "jobs", "problems", "courses"
KINDS = (SAMPLES, JOBS, PROBLEMS, COURSES)
OF_JOBS = (JOBS, PROBLEMS, COURSES)
_NAME = re.compile(r"([a-z]+)/cluster=([^/]+)/day=(\d{4}-\d\d-\d\d)/(\d{12})\.parquet")
_DAY_NS = 86_400 * 10**9
# Rows of a group that is read or skipped as a whole: a job's page reads one or two of them.
_GROUP_ROWS = {SAMPLES: 100_000, JOBS: 20_000, PROBLEMS: 20_000, COURSES: 2_000}


class Part(NamedTuple):
    """What the name of a file says."""

    kind: str
    cluster: str
    day: str
    number: int


def find_day(ns: int) -> str:
    """The day of a moment, UTC."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d")


def name_part(kind: str, cluster: str, day: str, number: int) -> str:
    """The name of a file; the cluster's is one that `names.is_cluster` lets through."""
    return f"{kind}/cluster={cluster}/day={day}/{number:012d}.parquet"


def split_name(name: str) -> Part | None:
    """Of `name_part`; None of what is no such name."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in KINDS:
        return None
    return Part(match[1], match[2], match[3], int(match[4]))


def is_between(number: int, gaps: Iterable[Sequence[int]]) -> bool:
    """Whether a number is one of those that a service left out as it took a bucket over."""
    return any(first <= number <= last for first, last in gaps)


def list_counted(
    names: Iterable[str],
    last: int,
    dropped: Collection[str],
    gaps: Sequence[Sequence[int]] = (),
) -> list[str]:
    """Those of a checkpoint up to `last` that none has replaced, and that are in no gap."""
    parts = [(name, split_name(name)) for name in names if name not in dropped]
    return [
        name
        for name, part in parts
        if part is not None and part.number <= last and not is_between(part.number, gaps)
    ]


def read_rows(
    addresses: Sequence[str], where: pl.Expr | None = None, columns: Sequence[str] = ()
) -> pl.DataFrame:
    """The rows of files at these paths, or addresses of a bucket. Raises OSError."""
    options: dict[str, Any] = {"hive_partitioning": False, "glob": False}
    rows = pl.scan_parquet(list(addresses), **options)
    rows = rows if where is None else rows.filter(where)
    try:
        return (rows.select(columns) if columns else rows).collect()
    # Of some damage Polars panics instead of raising an error of its own.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise OSError(str(error).splitlines()[0]) from error


class Shelf(ABC):
    """Files of some kinds. What cannot be read or written raises OSError."""

    kinds: ClassVar[tuple[str, ...]] = KINDS

    @abstractmethod
    def list_parts(self, kind: str, cluster: str = "", day: str = "") -> list[str]:
        """The files of a kind, of a cluster and day if they are named, by name."""

    @abstractmethod
    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Write a file, there for good when this returns."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is not there is no error."""

    @abstractmethod
    def address(self, name: str) -> str:
        """What Polars and DuckDB call a file."""

    @abstractmethod
    def bring(self, names: Sequence[str]) -> contextlib.AbstractContextManager[Path]:
        """A folder of this machine with these files under their names, while it is open."""

    def read(
        self, names: Sequence[str], where: pl.Expr | None = None, columns: Sequence[str] = ()
    ) -> pl.DataFrame:
        """The rows of some files, of which a condition holds; of all columns, or of some."""
        return read_rows([self.address(name) for name in names], where, columns)

    def list_days(self, kind: str, cluster: str, first_ns: int, last_ns: int) -> list[str]:
        """The days of a span, with both ends, of which a cluster has files."""
        first, last = find_day(first_ns), find_day(last_ns)
        days = {part.day for part in self._list(kind, cluster)}
        return sorted(day for day in days if first <= day <= last)

    def remove_later(self, number: int, gaps: Sequence[Sequence[int]] = ()) -> int:
        """Remove files of checkpoints that did not end, or are in a gap; how many there were."""
        later = [
            name
            for kind in self.kinds
            for name in self.list_parts(kind)
            if (part := split_name(name)) is not None
            and (part.number > number or is_between(part.number, gaps))
        ]
        self.remove(later)
        return len(later)

    def remove_old(self, kind: str, before: date) -> int:
        """Remove the days before one; how many there were."""
        old = [part for part in self._list(kind) if part.day < before.isoformat()]
        self.remove(name_part(*part) for part in old)
        return len({(part.cluster, part.day) for part in old})

    def find_scattered(self, kind: str, most: int) -> Iterator[tuple[str, str, list[str]]]:
        """Cluster, day and files of the days that have more than some files."""
        days: dict[tuple[str, str], list[str]] = {}
        for part in self._list(kind):
            days.setdefault((part.cluster, part.day), []).append(name_part(*part))
        for (cluster, day), names in days.items():
            if len(names) > most:
                yield cluster, day, names

    def _list(self, kind: str, cluster: str = "") -> list[Part]:
        parts = (split_name(name) for name in self.list_parts(kind, cluster))
        return [part for part in parts if part is not None]


class Folder(Shelf):
    """Files below a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def list_parts(self, kind: str, cluster: str = "", day: str = "") -> list[str]:
        """The files of a kind, of a cluster and day if they are named, by name."""
        found = (self.root / kind).glob(f"cluster={cluster or '*'}/day={day or '*'}/*.parquet")
        names = (path.relative_to(self.root).as_posix() for path in found)
        return sorted(name for name in names if split_name(name) is not None)

    def list_days(self, kind: str, cluster: str, first_ns: int, last_ns: int) -> list[str]:
        """By the names of folders: days of samples have hundreds of files."""
        first, last = find_day(first_ns), find_day(last_ns)
        folders = (self.root / kind / f"cluster={cluster}").glob("day=*")
        return sorted(day for f in folders if first <= (day := f.name.removeprefix("day=")) <= last)

    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Write a file, on the disk when this returns."""
        path = self.root / name
        folder = path.parent
        is_new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(rows, name, path)
        sync_file(path)
        sync_folder(folder)
        if is_new:
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, and their day's folder where nothing else is in it."""
        folders = set()
        for name in names:
            if split_name(name) is None:
                continue
            path = self.root / name
            path.unlink(missing_ok=True)
            folders.add(path.parent)
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def address(self, name: str) -> str:
        """Its path."""
        return str(self.root / name)

    @contextlib.contextmanager
    def bring(self, names: Sequence[str]) -> Iterator[Path]:
        """The folder itself."""
        yield self.root


def write_rows(rows: pl.DataFrame, name: str, target: Any) -> None:
    """As Parquet, to a path or an open file, in groups that suit its kind."""
    groups = _GROUP_ROWS[name.partition("/")[0]]
    rows.write_parquet(target, compression="zstd", compression_level=1, row_group_size=groups)
