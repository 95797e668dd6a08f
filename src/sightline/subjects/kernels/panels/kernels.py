"""Kernels: which take the time; a click shows the instances of one."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("kernels", "Kernels", 20)


def data(view: View) -> list[Block]:
    """The table of the analysis `kernels`, and profiled kernels where there are."""
    found = []
    if view.has_device:
        analysis = registry.load("analyses", "kernels").ANALYSIS
        frame = view.run.ask("kernels")
        found += [blocks.make_text(note) for note in analysis.notes]
        found.append(
            blocks.make_table(
                "Kernels by name",
                frame,
                analysis.columns,
                sort="total_ns",
                action="kernel",
                more="sightline stats kernels",
            )
        )
    if view.run.rows("kernel_metrics"):
        analysis = registry.load("analyses", "speed_of_light").ANALYSIS
        found.append(
            blocks.make_table(
                "Profiled kernels",
                view.run.ask("speed_of_light"),
                analysis.columns,
                more="sightline stats speed_of_light",
            )
        )
    if not found:
        raise MissingDataError("no kernels", why="no device operation and no profiled kernel")
    return found
