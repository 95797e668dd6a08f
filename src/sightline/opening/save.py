"""A run, or a part of it, written to a store of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.parts import make_of_frames
from sightline.core.model.run import Run
from sightline.core.model.span import Span, find_span
from sightline.core.model.store import (
    READ_FAILURES,
    Part,
    Tables,
    explain_unreadable,
    fill_store,
    write_store,
)
from sightline.core.model.tables import load_table
from sightline.opening.excerpt import describe_excerpt, read_excerpt
from sightline.version import __version__

# Larger tables are read while they are written. Polars by itself would read far ahead.
_ROWS_AT_ONCE = 1 << 19


def save_run(run: Run, target: Path, *, replace: bool = False) -> None:
    """Write a run to a store of its own. Raises StoreError, also where the run's own is damaged.

    A store that is there is replaced, anything else only where `replace` says so.
    """
    try:
        write_store(
            target,
            ((part.rank, _describe(part), _read_tables(part)) for part in run.parts),
            sightline_version=__version__,
            replace=replace,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # Of a large table, which is read while it is written.
        raise explain_unreadable("of the run", run.parts[0].store, error) from error


def save_excerpt(run: Run, span: Span, target: Path, *, replace: bool = False) -> None:
    """Write what of a run lies in a span (ns on its clock) to a store, as save_run does."""
    write_store(target, _list_excerpts(run, span), sightline_version=__version__, replace=replace)


def fill_excerpt(run: Run, span: Span, folder: Path) -> None:
    """Write it into an empty folder, to be read soon. Raises StoreError and OSError."""
    fill_store(folder, _list_excerpts(run, span), sightline_version=__version__, quick=True)


def _list_excerpts(run: Run, span: Span) -> Iterator[tuple[int, dict[str, Any], Tables]]:
    whole = find_span(run)
    length = 0 if whole is None else whole[1] - whole[0]
    for part in run.parts:
        described = dataclasses.replace(part, facts=describe_excerpt(part.facts, span, length))
        frames = read_excerpt(described, span)
        tables: Tables = {name: frame.drop("rank") for name, frame in frames.items()}
        yield part.rank, _describe(described), tables


def _describe(part: Part) -> dict[str, Any]:
    here = ("rows", "own_rank", "constants")
    return {k: v for k, v in part.facts.items() if k not in here}


def _read_tables(part: Part) -> Tables:
    tables: Tables = {}
    for name in registry.list_names("tables"):
        frame = part.scan(load_table(name))
        if frame is None:
            continue
        # Ids of the run are those of the new store, where the numbers are the same.
        frame = frame.drop("rank")
        if (rows := part.facts["rows"].get(name, 0)) > _ROWS_AT_ONCE:
            tables[name] = make_of_frames(partial(_read_pieces, frame, rows))
            continue
        try:
            tables[name] = frame.collect()
        except READ_FAILURES as error:
            raise explain_unreadable(name, part.store, error) from error
    return tables


def _read_pieces(frame: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield frame.slice(start, _ROWS_AT_ONCE).collect()
