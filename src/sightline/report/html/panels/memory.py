"""Memory: what the allocator held over time."""

from __future__ import annotations

from sightline.errors import MissingDataError
from sightline.report.html import blocks
from sightline.report.html.declare import Block, Panel, View
from sightline.report.html.panels._series import make_memory_blocks

PANEL = Panel("memory", "Memory", 100)


def data(view: View) -> list[Block]:
    """One plot for each device."""
    found = make_memory_blocks(view)
    if not found:
        raise MissingDataError(
            "no memory", why="no allocation was recorded: profile_memory=True records them"
        )
    count = view.run.rows("memory_events")
    return [*found, blocks.make_text(f"{count:,} allocations and frees were recorded.")]
