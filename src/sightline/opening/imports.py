"""One recording to a store: from the cache, or by its importer."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline._native import give_back_memory
from sightline.algebra.constants import find_null_columns
from sightline.errors import StoreError
from sightline.model import unwritten
from sightline.model.cache_folder import (
    is_temporary,
    list_cache_folders,
    open_cache_folder,
    replace_cache_folder,
)
from sightline.model.columns import Column, FrameT, conform_columns
from sightline.model.declare import Importer, ImportOptions
from sightline.model.source import Source
from sightline.model.store import Tables, describe_recording, fill_store
from sightline.model.tables import load_table
from sightline.opening import cache
from sightline.opening.content import hash_content
from sightline.opening.recognise import recognise
from sightline.stages import stage
from sightline.version import __version__

_ATTEMPTS = 3  # to read a file that is written to meanwhile
# Of so many rows, a recording is written to the cache while it is analysed (ours: fewer are written
# in no time, and more should not be in memory as a whole).
_HELD_ROWS = (100_000, 6_000_000)


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew. Raises InputError."""
    with stage("find out the format"):
        importer = recognise(source)
    salt = f"{importer.name}-{importer.version}-{options}-{_layout()}"
    for _ in range(_ATTEMPTS):
        with stage("hash it, look in the cache"):
            content = hash_content(source)
        name = cache.name_entry(content, salt)
        entry = _find_unwritten(name) or cache.find_entry(name, content)
        if entry is not None:
            return entry
        try:
            # Not under its name yet: the file may change while it is read.
            made = _make_entry(name, content, importer, source, options)
        except StoreError as error:  # the cache's disk is full: once more, elsewhere
            if is_temporary(open_cache_folder()):
                raise
            replace_cache_folder(error.why or error.what)
            made = _make_entry(name, content, importer, source, options)
        if made is not None:
            return made
    # It is written to all the time: what was read stands for no content that is known.
    unknown = f"changing-{uuid.uuid4().hex}"
    rank, facts, tables, _ = _read(importer, source, options, None)
    return cache.keep_entry(unknown, None, lambda folder: _write(folder, rank, facts, tables))


def _make_entry(
    name: str, content: str, importer: Importer, source: Source, options: ImportOptions
) -> Path | None:
    """The entry, or None if the file changed while it was read."""
    rank, facts, tables, is_small = _read(importer, source, options, content)

    def make(folder: Path) -> None:
        _write(folder, rank, facts, tables)
        if hash_content(source) != content:
            raise _ChangedError

    try:
        if not is_small:
            return cache.keep_entry(name, content, make)
        made = _collect(tables)
    except _ChangedError:
        return None
    if hash_content(source) != content:
        return None
    return _write_behind(name, content, rank, facts, made)


def _find_unwritten(name: str) -> Path | None:
    """The entry of that name, where this process is writing it."""
    places = (folder / name for folder in list_cache_folders())
    return next((place for place in places if unwritten.is_unwritten(place)), None)


def _write_behind(
    name: str, content: str, rank: int, facts: dict[str, Any], tables: dict[str, pl.DataFrame]
) -> Path:
    """Where the entry will be: it is written while its tables are asked already."""

    def write() -> Path:
        def make(folder: Path) -> None:
            _write(folder, rank, facts, dict(tables))

        try:
            return cache.keep_entry(name, content, make)
        except StoreError as error:
            if is_temporary(open_cache_folder()):
                raise
            replace_cache_folder(error.why or error.what)
            return cache.keep_entry(name, content, make)

    entry = open_cache_folder() / name
    rows = {table: frame.height for table, frame in tables.items()}
    # As it will be read from run.json.
    said = json.loads(json.dumps(describe_recording(rank, facts, rows)))
    unwritten.begin_writing(entry, said, tables, write)
    return entry


def _collect(tables: Tables) -> dict[str, pl.DataFrame]:
    """The tables that have rows, in memory; two at a time, as each is made by one thread."""
    with stage("make the tables"), ThreadPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        names = list(tables)
        frames = list(pool.map(lambda name: tables.pop(name).lazy().collect().rechunk(), names))
    give_back_memory()  # 110 of 260 MB after a trace of 0.54 GB, in 5 ms
    return {name: frame for name, frame in zip(names, frames, strict=True) if frame.height}


class _ChangedError(Exception):
    """The recording is not what it was when its hash was taken."""


def _read(
    importer: Importer, source: Source, options: ImportOptions, content: str | None
) -> tuple[int, dict[str, Any], Tables, bool]:
    """A recording's rank, facts and tables, and whether they are few enough to be held.

    Large tables are made while they are written, or when they are collected.
    """
    with stage("read and parse"):
        imported = registry.load("importers", importer.name).read(source, options)
    facts = {
        **imported.recording.facts(),
        "format": importer.name,
        "importer_version": f"{__version__}/{importer.version}",
        "bytes": source.size,
        "content": content,
        "quality": [vars(q) for q in imported.quality],
        "constants": imported.constants,
    }
    is_small = _HELD_ROWS[0] < sum(imported.rows.values()) <= _HELD_ROWS[1] and (
        imported.rows.keys() == imported.large.keys()
    )
    tables: Tables = {}
    for name in list(imported.tables):
        tables[name] = _with_values(imported.tables.pop(name), load_table(name).stored)
    for name in list(imported.large):
        columns = [
            c for c in load_table(name).stored if c.name not in imported.constants.get(name, ())
        ]
        tables[name] = _with_values(imported.large.pop(name), tuple(columns))
    if options.clock_shift_ns:
        for name in tables:
            tables[name] = _shift_times(name, tables[name], options.clock_shift_ns)
        _shift_facts(facts, options.clock_shift_ns)
    rank = facts.pop("rank", None) or 0
    return rank, {**facts, "own_rank": imported.recording.rank}, tables, is_small


def _write(folder: Path, rank: int, facts: dict[str, Any], tables: Tables) -> None:
    """Write the store's files into an empty folder."""
    with stage("write the tables"):
        fill_store(folder, [(rank, facts, tables)], sightline_version=__version__, quick=True)
    give_back_memory()


def _with_values(frame: FrameT, columns: tuple[Column, ...]) -> FrameT:
    """The declared columns without those that are null throughout, or absent."""
    if isinstance(frame, pl.LazyFrame):
        schema = frame.collect_schema()
        present = schema.names()
        columns = tuple(
            replace(c, dtype=pl.Categorical) if schema.get(c.name) == pl.Categorical else c
            for c in columns
        )
    else:
        present = frame.drop(find_null_columns(frame)).columns
    kept = [c.name for c in columns if c.name in present or c.required]
    return conform_columns(frame, columns).select(kept)


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


def _layout() -> str:
    """The tables' columns in short: an entry that was written with others is not taken."""
    columns = [
        (name, [(c.name, str(c.dtype)) for c in module.TABLE.columns])
        for name, module in registry.load_members("model.tables")
    ]
    return hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()
