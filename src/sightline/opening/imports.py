"""One recording to a store: from the cache, or by its importer."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline._native import give_back_memory
from sightline.algebra.constants import find_null_columns
from sightline.errors import StoreError
from sightline.model.cache_folder import is_temporary, open_cache_folder, replace_cache_folder
from sightline.model.columns import Column, FrameT, conform_columns
from sightline.model.declare import Importer, ImportOptions
from sightline.model.source import Source
from sightline.model.store import Tables, fill_store
from sightline.model.tables import load_table
from sightline.opening import cache
from sightline.opening.content import hash_content
from sightline.opening.recognise import recognise
from sightline.stages import stage
from sightline.version import __version__

_ATTEMPTS = 3  # to read a file that is written to meanwhile


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew. Raises InputError."""
    with stage("find out the format"):
        importer = recognise(source)
    salt = f"{importer.name}-{importer.version}-{options}-{_layout()}"
    for _ in range(_ATTEMPTS):
        with stage("hash it, look in the cache"):
            content = hash_content(source)
        name = cache.name_entry(content, salt)
        if (entry := cache.find_entry(name, content)) is not None:
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
    return cache.keep_entry(unknown, None, lambda f: _import(f, importer, source, options, None))


def _make_entry(
    name: str, content: str, importer: Importer, source: Source, options: ImportOptions
) -> Path | None:
    """The entry, or None if the file changed while it was read."""

    def make(folder: Path) -> None:
        _import(folder, importer, source, options, content)
        if hash_content(source) != content:
            raise _ChangedError

    try:
        return cache.keep_entry(name, content, make)
    except _ChangedError:
        return None


class _ChangedError(Exception):
    """The recording is not what it was when its hash was taken."""


def _import(
    folder: Path,
    importer: Importer,
    source: Source,
    options: ImportOptions,
    content: str | None,
) -> None:
    """Read the recording and write the store's files into an empty folder."""
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
    recording = (rank, {**facts, "own_rank": imported.recording.rank}, tables)
    with stage("write the tables"):
        fill_store(folder, [recording], sightline_version=__version__, quick=True)
    give_back_memory()  # 110 of 260 MB after a trace of 0.54 GB, in 5 ms


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
