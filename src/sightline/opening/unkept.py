"""A recording of a known format as a run in memory: nothing of it is kept in the cache."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline.core import registry
from sightline.core.model.declare import ImportOptions
from sightline.core.model.run import Run
from sightline.core.model.source import Source
from sightline.core.model.store import Part
from sightline.opening.ranks import read_rank_of_path
from sightline.opening.recording import describe_held, read_recording


def open_unkept(path: Path, importer: str) -> Run:
    """The run that `open_run` makes of the file, for who asks it once. Raises InputError.

    All its rows are in memory while the run is: it is for small recordings.
    """
    given = str(path)
    read = read_recording(
        registry.load("importers", importer).IMPORTER, Source(path, given), ImportOptions(), None
    )
    every = {
        name: frame.collect() if isinstance(frame, pl.LazyFrame) else frame
        for name, frame in read.tables.items()
    }
    tables = {name: frame for name, frame in every.items() if frame.height}
    facts = describe_held(read, tables)
    facts |= read_rank_of_path(path, given, facts)
    own = facts["own_rank"] if facts.get("own_rank") is not None else facts["rank"]
    return Run([Part(Path(), 0, facts["rank"], own, 0, facts, tables=tables)])
