"""One recording to a store: from the cache, or by its importer."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline.algebra.constants import empty
from sightline.model.cache_folder import find_cache_folder
from sightline.model.columns import FrameT, Table, conform
from sightline.model.declare import ImportOptions
from sightline.model.source import Source
from sightline.model.store import Tables, is_store, write_store
from sightline.opening import cache
from sightline.opening.recognise import recognise


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew."""
    importer = recognise(source)
    key = cache.key(source, f"{importer.name}-{importer.version}-{options}-{_layout()}")
    entry = find_cache_folder() / key
    if is_store(entry):
        cache.touch(entry)
        return entry
    from sightline import __version__

    imported = registry.load("importers", importer.name).read(source, options)
    facts = {
        **imported.recording,
        "format": importer.name,
        "importer_version": f"{__version__}/{importer.version}",
        "bytes": source.size,
        "quality": [vars(q) for q in imported.quality],
        "constants": imported.constants,
    }
    tables: Tables = {}
    for name in list(imported.tables):
        tables[name] = _with_values(imported.tables.pop(name), _stored_columns(name))
    for name in list(imported.large):
        columns = [
            c for c in _stored_columns(name) if c.name not in imported.constants.get(name, ())
        ]
        tables[name] = _with_values(imported.large.pop(name), tuple(columns))
    if options.clock_shift_ns:
        for name in tables:
            tables[name] = _shifted(tables[name], options.clock_shift_ns)
        for fact in ("clock_offset_ns", "start_ns", "end_ns"):
            if facts.get(fact) is not None:
                facts[fact] += options.clock_shift_ns
    write_store(
        entry,
        [
            (
                facts.pop("rank", None) or 0,
                {**facts, "own_rank": imported.recording.get("rank")},
                tables,
            )
        ],
        sightline_version=__version__,
        quick=True,
    )
    cache.touch(entry)
    cache.trim()
    return entry


def _with_values(frame: FrameT, columns: tuple[Any, ...]) -> FrameT:
    """The declared columns without those that are null throughout, or absent."""
    if isinstance(frame, pl.LazyFrame):
        schema = frame.collect_schema()
        present = schema.names()
        columns = tuple(
            replace(c, dtype=pl.Categorical) if schema.get(c.name) == pl.Categorical else c
            for c in columns
        )
    else:
        present = frame.drop(empty(frame)).columns
    kept = [c.name for c in columns if c.name in present or c.required]
    return conform(frame, columns).select(kept)


# The columns that are moments, not lengths of time.
_MOMENTS = ("start_ns", "end_ns", "time_ns", "from_ns", "pdl_last_cta_ns", "pdl_preexit_ns")


def _shifted(frame: pl.DataFrame | pl.LazyFrame, shift_ns: int) -> pl.DataFrame | pl.LazyFrame:
    """The table on another host's clock."""
    moments = [n for n in frame.collect_schema().names() if n in _MOMENTS]
    return frame.with_columns(pl.col(n) + shift_ns for n in moments)


def _layout() -> str:
    """The tables' columns in short: an entry that was written with others is not taken."""
    columns = [
        (name, [(c.name, str(c.dtype)) for c in module.TABLE.columns])
        for name, module in registry.members("model.tables")
    ]
    return hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()


def _stored_columns(table: str) -> tuple[Any, ...]:
    declared: Table = registry.load("model.tables", table).TABLE
    return tuple(c for c in declared.columns if c.name not in ("rank", "recording_id"))
