"""A recording as it is read and as it is stored: facts, and tables with the declared columns."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sightline._native import give_back_memory
from sightline.core import registry
from sightline.core.model.columns import Column, FrameT, conform_columns
from sightline.core.model.constants import find_constants, find_null_columns
from sightline.core.model.declare import Importer, ImportOptions, Whole
from sightline.core.model.source import Source
from sightline.core.model.store import Tables, describe_recording, fill_store
from sightline.core.model.tables import load_table
from sightline.core.stages import stage
from sightline.opening.impossible_times import repair_times
from sightline.version import __version__

# Of so many rows, a recording is written to the cache while it is analysed (ours: fewer are written
# in no time, and more should not be in memory as a whole).
HELD_ROWS = (100_000, 6_000_000)


class ReadRecording(NamedTuple):
    """What was read of a recording: large tables are made when they are written."""

    rank: int
    facts: dict[str, Any]
    tables: Tables
    is_small: bool  # all tables are in memory


def read_recording(
    importer: Importer, source: Source, options: ImportOptions, content: str | None
) -> ReadRecording:
    """Read a recording whose content has this hash, or a hash that is not known."""
    with stage("read and parse"):
        imported = registry.load("importers", importer.name).read(source, options)
    with stage("check the times"):
        repair_times(imported)
    facts = {
        **imported.recording.facts(),
        "format": importer.name,
        "importer_version": f"{__version__}/{importer.version}",
        "bytes": source.size,
        "content": content,
        "quality": [vars(q) for q in imported.quality],
        "constants": imported.constants,
    }
    rows = sum(whole.rows for whole in imported.whole.values())
    is_small = HELD_ROWS[0] < rows <= HELD_ROWS[1] and (
        imported.whole.keys() == imported.large.keys()
    )
    if is_small:
        imported.large.clear()
        for name, frame in _make_whole(imported.whole).items():
            imported.constants[name] = find_constants(frame)
            imported.tables[name] = frame.drop(imported.constants[name])
    tables: Tables = {}
    for made in (imported.tables, imported.large):
        for name in list(made):
            constants = imported.constants.get(name, ())
            columns = (c for c in load_table(name).stored if c.name not in constants)
            tables[name] = _with_values(made.pop(name), tuple(columns))
    if options.clock_shift_ns:
        for name in tables:
            tables[name] = _shift_times(name, tables[name], options.clock_shift_ns)
        _shift_facts(facts, options.clock_shift_ns)
    rank = facts.pop("rank", None) or 0
    own_rank = imported.recording.rank
    return ReadRecording(rank, {**facts, "own_rank": own_rank}, tables, is_small)


def _make_whole(whole: dict[str, Whole]) -> dict[str, pl.DataFrame]:
    """These tables, in memory; two at a time, as each is made by one thread."""
    with stage("make the tables"), ThreadPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        frames = list(pool.map(lambda table: table.make(), whole.values()))
    return dict(zip(whole, frames, strict=True))


def list_held(tables: Tables) -> dict[str, pl.DataFrame]:
    """The tables of a small recording that have rows, once what it was read with has gone."""
    give_back_memory()  # 110 of 260 MB after a trace of 0.54 GB, in 5 ms
    return {
        name: frame
        for name, frame in tables.items()
        if isinstance(frame, pl.DataFrame) and frame.height
    }


def describe_held(read: ReadRecording, tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """What would be read of it from run.json; `tables` are those that have rows."""
    rows = {name: frame.height for name, frame in tables.items()}
    described: dict[str, Any] = json.loads(
        json.dumps(describe_recording(read.rank, read.facts, rows))
    )
    return described


def write_recording(read: ReadRecording, folder: Path) -> None:
    """Write the store's files into an empty folder. Raises OSError."""
    recording = (read.rank, read.facts, read.tables)
    with stage("write the tables"):
        fill_store(folder, [recording], sightline_version=__version__, quick=True)
    give_back_memory()


def _with_values(frame: FrameT, columns: tuple[Column, ...]) -> FrameT:
    """The declared columns without those that are null throughout, or absent."""
    if isinstance(frame, pl.DataFrame):
        return _take_values(frame, columns)
    schema = frame.collect_schema()
    columns = tuple(
        replace(c, dtype=pl.Categorical) if schema.get(c.name) == pl.Categorical else c
        for c in columns
    )
    kept = {c.name for c in columns if c.name in schema or c.required}
    return conform_columns(frame, columns, kept)


def _take_values(frame: pl.DataFrame, columns: tuple[Column, ...]) -> pl.DataFrame:
    """The same of a table in memory; without a query where its columns are as they should be."""
    full = set(frame.columns).difference(find_null_columns(frame))
    kept = [c for c in columns if c.name in full or c.required]
    is_declared = {c.name for c in columns}.issuperset(frame.columns)
    schema = frame.schema  # made anew whenever it is asked for
    if is_declared and all(c.name in full and schema[c.name] == c.dtype for c in kept):
        return pl.DataFrame([frame.get_column(c.name) for c in kept])
    return conform_columns(frame, columns, {c.name for c in kept})


def _shift_times(
    table: str, frame: pl.DataFrame | pl.LazyFrame, shift_ns: int
) -> pl.DataFrame | pl.LazyFrame:
    """The table on another host's clock."""
    present = set(frame.collect_schema().names())
    moments = present.intersection(load_table(table).moments)
    return frame.with_columns(pl.col(name) + shift_ns for name in moments)


def _shift_facts(facts: dict[str, Any], shift_ns: int) -> None:
    """What is known of the file as a whole, and columns of one value, on another host's clock."""
    for fact in ("clock_offset_ns", "start_ns", "end_ns"):
        if facts.get(fact) is not None:
            facts[fact] += shift_ns
    for table, values in facts["constants"].items():
        for name in values.keys() & set(load_table(table).moments):
            values[name] += shift_ns
