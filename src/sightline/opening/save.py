"""A run written to a store of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline.model.parts import make_of_frames
from sightline.model.run import Run
from sightline.model.store import READ_FAILURES, Tables, explain_unreadable, write_store
from sightline.model.tables import load_table
from sightline.version import __version__

# Larger tables are read while they are written. Polars by itself would read far ahead.
_ROWS_AT_ONCE = 1 << 19


def save_run(run: Run, target: Path, *, replace: bool = False) -> None:
    """Write a run to a store of its own. Raises StoreError, also where the run's own is damaged.

    A store that is there is replaced, anything else only where `replace` says so.
    """
    names = registry.list_names("model.tables")

    def recordings() -> Iterable[tuple[int, dict[str, Any], Tables]]:
        for part in run.parts:
            tables: Tables = {}
            for name in names:
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
            here = ("rows", "own_rank", "constants")
            facts = {k: v for k, v in part.facts.items() if k not in here}
            yield part.rank, facts, tables

    try:
        write_store(target, recordings(), sightline_version=__version__, replace=replace)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # Of a large table, which is read while it is written.
        raise explain_unreadable("of the run", run.parts[0].store, error) from error


def _read_pieces(frame: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield frame.slice(start, _ROWS_AT_ONCE).collect()
