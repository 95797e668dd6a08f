"""An inference server: its steps as a strip, by phase, and where tokens' time goes."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("serving", "Serving", 12)


def data(view: View) -> list[Block]:
    """Phases, a token's time, the load, the layers, and each step with a jump to the timeline."""
    made = [block for name in _TABLES for block in _make_table(view, name)]
    if not made:
        raise MissingDataError("no inference server", why="no engine's step and no served request")
    return made


# Analysis, its title in the page, and columns that its table leaves out.
_TABLES = {
    "engine_cycles": ("Steps by phase", ()),
    "token_time": ("Where a token's time goes", ()),
    "serving_load": ("Load of the server", ()),
    "request_time": ("Requests", ()),
    "model_layers": ("Layers of one step of each phase", ()),
    "engine_steps": ("Steps", ("host_start_ns", "host_end_ns", "engine", "source", "confidence")),
}


def _make_table(view: View, name: str) -> list[Block]:
    title, hidden = _TABLES[name]
    columns = registry.load("analyses", name).ANALYSIS.columns
    try:
        frame = view.run.ask(name)
    except MissingDataError:
        return []
    moments = {"start_ns", "end_ns"} <= {column.name for column in columns}
    table = blocks.make_table(
        title,
        frame,
        columns,
        origin_ns=view.span[0],
        action="range" if moments else None,
        hide=hidden,
        more=f"sightline stats {name}",
        heat=("share_pct",) if name == "token_time" else (),
    )
    return [table]
