"""What was read: files, devices, tables, quality; and which panels are absent, and why."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import Column
from sightline.core.model.tables import load_table
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.text import make_printable
from sightline.version import __version__

PANEL = Panel("recording", "Recording", 1000, needs_findings=True)


def data(view: View) -> list[Block]:
    """Tables of the run's own tables `recordings`, `devices`, `quality`, and row counts."""
    found = []
    for name, title in (
        ("recordings", "Recordings"),
        ("devices", "Devices"),
        ("quality", "Quality notes"),
    ):
        frame = view.run.table(name)
        if frame.is_empty():
            continue
        columns = load_table(name).columns
        found.append(
            blocks.make_table(title, frame, columns, origin_ns=view.span[0], hide=("recording_id",))
        )
    counts = pl.DataFrame(
        {"table": view.run.present(), "rows": [view.run.rows(t) for t in view.run.present()]}
    )
    docs = {t: load_table(t).row for t in view.run.present()}
    counts = counts.with_columns(row=pl.Series([docs[t] for t in view.run.present()]))
    found.append(blocks.make_table("Tables", counts, _COUNTS))
    if view.absent:
        found.append(
            {
                "kind": "list",
                "title": "Panels that are absent",
                "items": [f"{title}: {make_printable(why)}" for title, why in view.absent],
            }
        )
    found.append(
        blocks.make_text(
            f"Made by sightline {__version__}. Times are counted from the first event."
        )
    )
    return found


_COUNTS = (
    Column("table", pl.String, "name of the table"),
    Column("rows", pl.Int64, "rows"),
    Column("row", pl.String, "what one row is"),
)
