"""Framework operators and annotated ranges: what they cost on the host and on the device."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("ops", "Ops", 30)
_OF_DEVICE = ("device_", "launches", "projected_")


def data(view: View) -> list[Block]:
    """The tables of the analyses `ops` and `annotations`, as far as they have rows."""
    found: list[Block] = []
    for name, title in (("ops", "Framework operators"), ("annotations", "Annotated ranges")):
        analysis = registry.load("analyses", name).ANALYSIS
        if not view.run.rows("host_ops"):
            break
        frame = view.run.ask(name)
        if name == "ops" and not frame.filter(frame.get_column("instances") > 0).height:
            continue
        if frame.height:
            found += [blocks.make_text(note) for note in analysis.notes]
            # Where no device was recorded, what it took is unknown, and no column of zeros.
            of_device = [c.name for c in analysis.columns if c.name.startswith(_OF_DEVICE)]
            hide = [] if view.has_device else of_device
            more = f"sightline stats {name}"
            found.append(blocks.make_table(title, frame, analysis.columns, more=more, hide=hide))
    if not found:
        raise MissingDataError("no operators", why="no framework operator and no annotated range")
    return found
