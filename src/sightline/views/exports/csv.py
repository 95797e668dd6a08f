"""One CSV file per table, in a folder: numbers as they are, missing as an empty field.

Lists are written with a space between their items.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline.core.model.run import Run
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="csv",
    label="a folder of CSV files, one per table",
    suffix="-csv",
    loses="the types of the columns",
)


def write(run: Run, target: Path) -> list[Path]:
    """Write every table that has rows."""
    written = []
    for name in run.present():
        frame = run.table(name)
        flat = frame.with_columns(
            pl.col(column).cast(pl.List(pl.String)).list.join(" ")
            for column, dtype in frame.schema.items()
            if isinstance(dtype, pl.List)
        )
        written.append(put(target / f"{name}.csv", flat.write_csv().encode()))
    return written
