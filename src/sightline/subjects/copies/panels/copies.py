"""Copies and memsets: how much, in which direction, how fast."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("copies", "Copies", 70)


def data(view: View) -> list[Block]:
    """The table of the analysis `memcpy`."""
    if not view.has_device:
        raise MissingDataError("no copies", why="no device operation")
    frame = view.run.ask("memcpy")
    if frame.is_empty():
        raise MissingDataError("no copies", why="no copy or memset in the window")
    analysis = registry.load("analyses", "memcpy").ANALYSIS
    return [
        *(blocks.make_text(note) for note in analysis.notes),
        blocks.make_table(
            "Copies and memsets", frame, analysis.columns, more="sightline stats memcpy"
        ),
    ]
