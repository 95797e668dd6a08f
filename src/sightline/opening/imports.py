"""One recording to a store: from the cache, or by its importer."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline.algebra.constants import find_null_columns
from sightline.model.cache_folder import find_cache_folder
from sightline.model.columns import Column, FrameT, conform_columns
from sightline.model.declare import ImportOptions
from sightline.model.source import Source
from sightline.model.store import Tables, is_store, write_store
from sightline.model.tables import load_table
from sightline.opening import cache
from sightline.opening.recognise import recognise
from sightline.version import __version__


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew."""
    importer = recognise(source)
    key = cache.name_entry(source, f"{importer.name}-{importer.version}-{options}-{_layout()}")
    entry = find_cache_folder() / key
    if is_store(entry):
        cache.mark_used(entry)
        return entry
    imported = registry.load("importers", importer.name).read(source, options)
    facts = {
        **imported.recording.facts(),
        "format": importer.name,
        "importer_version": f"{__version__}/{importer.version}",
        "bytes": source.size,
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
    write_store(
        entry,
        [
            (
                facts.pop("rank", None) or 0,
                {**facts, "own_rank": imported.recording.rank},
                tables,
            )
        ],
        sightline_version=__version__,
        quick=True,
    )
    cache.mark_used(entry)
    cache.trim_cache()
    return entry


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
