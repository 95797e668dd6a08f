"""The store: a folder of Parquet files that other tools open as it is.

    NAME.sightline/
      run.json                              what was read, and how many rows each table has
      device_ops/rank=0/0.parquet           one file per table and recording, hive-partitioned
      ...

A file may lack columns that have one value throughout: the cache leaves them out, since writing
the same value again takes as long as writing another. run.json holds the value, or none for null.
Texts of large tables may be categories, as they came: finding again which are equal takes longer
than all else of writing them. Part.scan makes of both what is declared.
Row ids in file k of a store start at k << 40, so they are unique in the whole store.
The same layout serves the cache, where each entry holds one recording.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model import unwritten
from sightline.core.model.clock import Clock
from sightline.core.model.columns import Table, write_constant
from sightline.core.model.store_facts import check_facts
from sightline.core.text import replace_surrogates
from sightline.errors import StoreError

FORMAT = "sightline-run"
FROM_FACTS = ("quality", "recordings")  # tables that run.json holds, too small to read lazily
VERSION = 1
Tables = MutableMapping[str, pl.DataFrame | pl.LazyFrame]
ID_SHIFT = 40  # 2^40 rows of a table in one recording, 2^23 recordings in a run
# Damaged Parquet makes Polars panic here and there, which is no Exception.
READ_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_ROW_GROUP = 1 << 17  # rows of a large table that are held at once
_AT_ONCE = 4  # tables
_FEW_ROWS = 10_000  # of all tables: written before other threads have begun (ours)
# Level 1 writes about three times faster than Polars' default for 10 % more bytes.
_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
# Half of the time again, for twice the bytes: what is kept only to be read soon.
# Without statistics a sixth less again: what says which rows to skip is for tables that are larger
# than memory.
_QUICK: dict[str, Any] = {"compression": "snappy", "statistics": False}


class Watched(NamedTuple):
    """What of a monitor's recording belongs to a job that was traced beside it.

    Its values between two moments (ns, on the run's clock), and whose its devices are: the number
    in the recording, then rank and number in the job. Values of other devices are left out, those
    of the host stay.
    """

    span: tuple[int, int]
    places: tuple[tuple[int, int, int], ...]

    def select(self, table: str, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of a table that belong to the job, under its ranks and devices."""
        if table == "devices":  # the job's own recordings name them
            return frame.clear()
        if table not in ("counters", "device_events"):
            return frame
        inside = frame.filter(pl.col("time_ns").is_between(*self.span))
        numbers = [number for number, *_ in self.places]
        known = pl.col("device_id").is_null() | pl.col("device_id").is_in(numbers)
        ranks, devices = ({p[0]: p[n] for p in self.places} for n in (1, 2))
        device = pl.col("device_id")
        return inside.filter(known).with_columns(
            rank=device.replace_strict(ranks, default=pl.col("rank"), return_dtype=pl.Int64),
            device_id=device.replace_strict(devices, default=None, return_dtype=pl.Int64),
        )


class Member(NamedTuple):
    """One recording of what a person gave, before it takes part in a run."""

    store: Path
    number: int  # in the store
    facts: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One recording inside a store, as it takes part in a run."""

    store: Path
    index: int  # its number in the store
    stored_rank: int
    rank: int
    recording_id: int  # its number in the run
    facts: dict[str, Any]
    clock: Clock | None = None
    watched: Watched | None = None
    # Rows that lie in no file, such as an excerpt's: then no file is asked for.
    tables: Mapping[str, pl.DataFrame] | None = None

    def file(self, table: str) -> Path:
        """Where the recording's rows of a table lie; absent if it has none."""
        place = unwritten.find_place(self.store)
        return place / table / f"rank={self.stored_rank}" / f"{self.index}.parquet"

    def __getstate__(self) -> dict[str, Any]:
        """For workers: they read the files, which are written by then."""
        return {**vars(self), "store": unwritten.find_place(self.store)}

    def columns(self, table: Table) -> pl.Schema:
        """The columns of the recording's file of a table; of the others see `constants`.

        Raises StoreError where the file is damaged.
        """
        try:
            path = self.file(table.name)
            return _read_schema(path, path.stat().st_mtime_ns)
        except READ_FAILURES as error:
            raise explain_unreadable(table.name, self.store, error) from error

    def constants(self, table: Table) -> dict[str, int | str]:
        """The values of columns that are not in the file; a column that is in neither is null."""
        found: dict[str, int | str] = self.facts.get("constants", {}).get(table.name, {})
        return found

    def scan(self, table: Table, columns: Iterable[str] | None = None) -> pl.LazyFrame | None:
        """The recording's rows of a table with the run's rank and ids, or None if it has none.

        Of a wide table it saves half a millisecond to name the `columns` that are wanted.
        """
        if table.name in FROM_FACTS:
            facts = list_fact_rows(self.facts, table)
            return (
                pl.DataFrame(facts, schema=table.schema)
                .with_columns(
                    rank=pl.lit(self.rank, pl.Int64),
                    recording_id=pl.lit(self.recording_id, pl.Int64),
                )
                .lazy()
            )
        tables = unwritten.find_tables(self.store) if self.tables is None else self.tables
        if tables is not None:
            if table.name not in tables:
                return None
            rows, stored = tables[table.name].lazy(), tables[table.name].schema
        else:
            path = self.file(table.name)
            if not path.is_file():
                if self.facts["rows"].get(table.name):
                    raise StoreError(
                        f"cannot read table {table.name} of {self.store}", why=f"{path} is missing"
                    )
                return None
            stored = self.columns(table)
            rows = pl.scan_parquet(path.absolute(), hive_partitioning=False, glob=False)
        kept = set(table.schema if columns is None else columns)
        # What moves moments or leaves rows out looks at other columns, too.
        wanted = kept if self.clock is None and self.watched is None else set(table.schema)
        offset = (self.recording_id - self.index) << ID_SHIFT
        constants = self.constants(table)
        absent = [
            c
            for c in table.columns
            if c.name in wanted and c.name not in stored and (c.name in constants or not c.required)
        ]
        texts = [c for c, dtype in stored.items() if c in wanted and dtype == pl.Categorical]
        frame = rows.with_columns(
            *(write_constant(constants.get(c.name), c.dtype, c.name) for c in absent),
            *(pl.col(c).cast(pl.String) for c in texts),
            rank=pl.lit(self.rank, pl.Int64),
            recording_id=pl.lit(self.recording_id, pl.Int64),
        )
        if offset and table.ids:
            shifted = [c for c in table.ids if c in wanted and c != "recording_id"]
            frame = frame.with_columns(pl.col(c) + offset for c in shifted)
        if self.clock is not None:
            moments = table.moments
            frame = frame.with_columns(self.clock.move(pl.col(c)).alias(c) for c in moments)
        if self.watched is not None:
            frame = self.watched.select(table.name, frame)
        return frame.select([c for c in table.schema if c in kept])


@lru_cache(maxsize=256)  # a table is scanned several times, and its file written once
def _read_schema(path: Path, _written_ns: int) -> pl.Schema:
    # As bytes: of a path Polars would expand [..], * and ?, and read another file.
    with path.open("rb") as file:
        return pl.Schema(pl.read_parquet_schema(file))


def explain_unreadable(table: str, store: Path, error: BaseException) -> StoreError:
    """What to say where a file of a store is damaged."""
    return StoreError(
        f"cannot read table {table} of {store}",
        why=(str(error).splitlines() or [type(error).__name__])[0],
        hint="Import the recording again, or remove the cache:  sightline cache clear",
    )


def list_fact_rows(facts: dict[str, Any], table: Table) -> list[dict[str, Any]]:
    """The rows of `recordings` or `quality` that a recording's facts in run.json stand for."""
    sources = facts.get("quality", []) if table.name == "quality" else [facts]
    return [{name: _as_text(source.get(name)) for name in table.schema} for source in sources]


def _as_text(value: Any) -> Any:
    """A text as a column holds it."""
    return replace_surrogates(value) if isinstance(value, str) else value


def write_store(
    target: Path,
    recordings: Iterable[tuple[int, dict[str, Any], Tables]],
    *,
    sightline_version: str,
    replace: bool = False,
) -> None:
    """Write (rank, facts, tables) of each recording to `target`, atomically.

    Tables must have ids that are unique in the store already and no rank column; each is taken
    out of its mapping when it is written, to be freed. A store of ours at `target` is replaced;
    anything else there is an error, unless `replace` asks for it.
    """
    if not replace and (why := explain_foreign(target)) is not None:
        raise StoreError(
            f"cannot write {target}",
            why=why,
            hint="Choose another name with -o. To remove what is there:  --replace",
        )
    scratch: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Not mkdtemp, whose folder nobody else may read: here the user's umask decides.
        scratch = target.parent / f".{target.name}.{secrets.token_hex(8)}"
        scratch.mkdir()
        fill_store(scratch, recordings, sightline_version=sightline_version)
        put_in_place(scratch, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}", why=(error.strerror or str(error))) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def fill_store(
    folder: Path,
    recordings: Iterable[tuple[int, dict[str, Any], Tables]],
    *,
    sightline_version: str,
    quick: bool = False,
) -> None:
    """Write a store's files into an empty folder. Raises OSError.

    `quick` is for the cache: twice the bytes in less time.
    """
    described = []
    for index, (rank, facts, tables) in enumerate(recordings):
        file = f"rank={rank}/{index}.parquet"
        rows = _write_all(tables, folder, file, _QUICK if quick else _SMALL)
        described.append(describe_recording(rank, facts, rows))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "sightline": sightline_version,
        "recordings": described,
    }
    (folder / "run.json").write_text(json.dumps(document, indent=1), encoding="utf-8")


def describe_recording(rank: int, facts: dict[str, Any], rows: dict[str, int]) -> dict[str, Any]:
    """What run.json says of a recording; `rows` are those of tables that have any."""
    return {"content": None, **facts, "rank": rank, "rows": rows}


def explain_foreign(target: Path) -> str | None:
    """Why a place is not to be replaced by a store; None if it is free, or a store and no more."""
    if not target.exists() and not target.is_symlink():
        return None
    if target.is_symlink() or not is_store(target):
        return "it exists and is not a sightline store"
    try:
        read_facts(target)
    except StoreError as error:
        return f"it exists and is not a readable sightline store ({error.what})"
    known = re.compile(r"run\.json|\w+(?:/rank=\d+(?:/\d+\.parquet)?)?")
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if not known.fullmatch(name):
            return f"it holds {name}, which is not of a sightline store"
    return None


def _write_all(
    tables: Tables, store: Path, file: str, compression: dict[str, Any]
) -> dict[str, int]:
    """Write a recording's tables; how many rows each has."""
    names = list(tables)
    if sum(_count_at_most(frame) for frame in tables.values()) <= _FEW_ROWS:
        heights = [_write(tables.pop(n), store / n / file, compression) for n in names]
        return {name: height for name, height in zip(names, heights, strict=True) if height}
    # A file is written by little more than one thread, so tables are written side by side. Not more
    # at once than cores, and few in any case: one that is made while it is written takes memory.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        written = [pool.submit(_write, tables.pop(n), store / n / file, compression) for n in names]
        heights = [future.result() for future in written]
    return {name: height for name, height in zip(names, heights, strict=True) if height}


def _count_at_most(frame: pl.DataFrame | pl.LazyFrame) -> float:
    """Its rows; of one that is not made yet any number."""
    return frame.height if isinstance(frame, pl.DataFrame) else math.inf


def _write(frame: pl.DataFrame | pl.LazyFrame, path: Path, compression: dict[str, Any]) -> int:
    """Write a table's file, unless it has no rows; the number of rows."""
    if isinstance(frame, pl.DataFrame) and frame.is_empty():
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if isinstance(frame, pl.DataFrame):
            # Into an open file, which is nowhere expanded or taken for an address.
            with path.open("wb") as file:
                frame.write_parquet(file, **compression)
            return frame.height
        # Row group by row group, as the rows are made.
        options = {**compression, "statistics": True}
        frame.sink_parquet(
            path.absolute(), row_group_size=_ROW_GROUP, maintain_order=True, **options
        )
        scan = pl.scan_parquet(path.absolute(), hive_partitioning=False, glob=False)
        return int(scan.select(pl.len()).collect().item())
    except pl.exceptions.ComputeError as error:
        # Polars hides what the system said in a text.
        if (number := re.search(r"\(os error (\d+)\)", str(error))) is not None:
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise


def put_in_place(scratch: Path, target: Path) -> None:
    """Put the new folder in place of the old one, which goes only when the new one is there."""
    aside = scratch.with_name(f"{scratch.name}.old")
    for _ in range(10):
        try:
            if target.exists():
                target.rename(aside)
            scratch.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                if aside.exists() and not target.exists():
                    aside.rename(target)
                raise
        else:
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink(missing_ok=True)
            return
        shutil.rmtree(aside, ignore_errors=True)
    raise OSError(errno.EBUSY, "another process writes there")


def read_facts(store: Path) -> list[dict[str, Any]]:
    """The recordings of a store, from its run.json. Raises StoreError."""
    if (facts := unwritten.find_facts(store)) is not None:
        return [facts]
    path = store / "run.json"
    again = "Make it again:  sightline import RECORDINGS... -o " + store.name
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise StoreError(
                f"{store} is not a sightline store", why="its run.json was written by another tool"
            )
        if document["version"] != VERSION:
            raise StoreError(
                f"{store} has store version {document['version']}, this sightline reads {VERSION}",
                hint=again,
            )
        recordings: list[dict[str, Any]] = document["recordings"]
        for facts in recordings:
            check_facts(facts)
    except OSError as error:
        raise StoreError(f"cannot read {path}", why=error.strerror, hint=again) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"cannot read {path}", why="it is damaged or incomplete", hint=again
        ) from error
    return recordings


def is_store(path: Path) -> bool:
    """Whether a folder is a sightline store."""
    return path.is_dir() and (path / "run.json").is_file()
