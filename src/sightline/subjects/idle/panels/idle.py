"""Idle time: why the device waited, and each gap with a jump to the timeline."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.model.run import page
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("idle", "Idle", 40)


def data(view: View) -> list[Block]:
    """Causes, then the longest gaps."""
    if not view.has_device:
        raise MissingDataError("no idle time", why="no device operation")
    causes = registry.load("analyses", "idle")
    gaps = registry.load("analyses", "idle_gaps")
    frame = view.run.ask("idle_gaps").sort(
        "duration_ns", "start_ns", descending=[True, False], maintain_order=True
    )
    ladder = page(gaps).split("\n\n")[-1]
    return [
        blocks.make_table(
            "Causes", view.run.ask("idle"), causes.ANALYSIS.columns, more="sightline stats idle"
        ),
        *(blocks.make_text(note) for note in causes.ANALYSIS.notes),
        blocks.make_table(
            "Gaps, the longest first",
            frame,
            gaps.ANALYSIS.columns,
            origin_ns=view.span[0],
            action="range",
            more="sightline stats idle_gaps",
            hide=("before_id", "after_id", "launch_id", "host_op_id"),
        ),
        {"kind": "fold", "title": "What the causes mean", "text": ladder},
    ]
