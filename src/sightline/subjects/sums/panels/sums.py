"""What a profiler added up: the GPU's work and the calls, and the runs that stand in one text."""

from __future__ import annotations

import polars as pl

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("sums", "Sums", 15)


def data(view: View) -> list[Block]:
    """A table of the GPU's work, one of calls, and one of runs where there are several."""
    run = view.run
    if not run.rows("call_sums") or run.rows("device_ops"):
        raise MissingDataError("no sums", why="the recording has a timeline, or no sums")
    columns = registry.load("analyses", "sums").ANALYSIS.columns
    rows = run.ask("sums")
    on_device = rows.get_column("what").is_in(["kernel", "memcpy", "memset", "page faults"])
    found = [
        blocks.make_table(title, part, columns)
        for title, part in (
            ("The GPU's work", rows.filter(on_device)),
            ("Calls", rows.filter(~on_device)),
        )
        if part.height
    ]
    runs = run.ask("summed_runs").filter(pl.col("part").is_not_null())
    if runs.height > 1:
        columns = registry.load("analyses", "summed_runs").ANALYSIS.columns
        found.append(blocks.make_table("Runs in this text", runs, columns, hide=["rank"]))
    return found
