"""One CSV file per table, in a folder: numbers as they are, missing as an empty field.

Lists are written with a space between their items, and texts so that no spreadsheet runs them.
"""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from sightline.views.csv_text import encode_csv
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="csv",
    label="a folder of CSV files, one per table",
    suffix="-csv",
    loses="the types of the columns",
    options=("exact",),
)


def write(run: Run, target: Path, *, exact: bool = False) -> list[Path]:
    """Write every table that has rows; with `exact`, texts that begin as a formula as they are."""
    return [
        put(target / f"{name}.csv", encode_csv(run.table(name), exact=exact))
        for name in run.present()
    ]
