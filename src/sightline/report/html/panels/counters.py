"""Counters: values over time."""

from __future__ import annotations

from sightline.errors import MissingDataError
from sightline.report.html import blocks
from sightline.report.html.declare import Block, Panel, View
from sightline.report.html.panels._series import make_counter_blocks, note_left_out

PANEL = Panel("counters", "Counters", 110)


def data(view: View) -> list[Block]:
    """One plot for each metric and device."""
    found = make_counter_blocks(view)
    if not found:
        raise MissingDataError("no counters", why="no counter was recorded over time")
    more = note_left_out(view)
    if more:
        found.append(blocks.make_text(f"{more} more series are in the recording: sightline sql."))
    return found
