"""An inference server: its steps as a strip, by phase, and where tokens' time goes."""

from __future__ import annotations

import polars as pl

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.units import format_several
from sightline.errors import MissingDataError
from sightline.timeline.engine_steps import list_engine_steps

PANEL = Panel("serving", "Serving", 12)


def data(view: View) -> list[Block]:
    """Phases, a token's time, the load, the layers, and each step with a jump to the timeline."""
    made = [
        *_draw_steps(view),
        *(block for name in _TABLES for block in _make_table(view, name)),
    ]
    if not made:
        raise MissingDataError("no inference server", why="no engine's step and no served request")
    return made


# Analysis, its title in the page, and columns that its table leaves out.
_TABLES = {
    "engine_cycles": ("Steps by phase", ()),
    "token_time": ("Where a token's time goes", ()),
    "first_token_time": ("Where the time to the first token goes", ()),
    "engine_roofline": ("How far each phase is from the roofline", ()),
    "serving_load": ("Load of the server", ()),
    "goodput": ("Goodput under published promises", ("source",)),
    "energy_per_token": ("Energy of a token", ()),
    "request_time": ("Requests", ()),
    "request_story": ("Requests, over servers that prefill and decode apart", ()),
    "kv_transfers": ("Transfers of keys and values", ()),
    "model_layers": ("Layers of one step of each phase", ()),
    "engine_steps": ("Steps", ("host_start_ns", "host_end_ns", "engine", "source", "confidence")),
}


# Steps that are drawn one by one: of more, the first ones (as many as make_table shows rows).
MOST_DRAWN = blocks.MAX_ROWS
_PHASES = ("decode", "prefill", "mixed", "other")


def _draw_steps(view: View) -> list[Block]:
    """The steps of the first rank as a strip: colour by phase, width by time."""
    steps = list_engine_steps(view.run)
    if steps.is_empty():
        return []
    mine = steps.filter(pl.col("rank") == steps.item(0, "rank"))
    shown = mine.head(MOST_DRAWN)
    of = [_PHASES.index(p) if p in _PHASES else len(_PHASES) - 1 for p in shown["phase"].to_list()]
    numbers = shown.select(
        pl.sum_horizontal("prefill_tokens", "decode_tokens"),
        pl.sum_horizontal("prefill_requests", "decode_requests"),
    )
    title = "Steps in time, by phase"
    if mine.height > shown.height:
        title += f": the first {shown.height:,} of {mine.height:,}"
    return [
        {
            "kind": "strip",
            "title": title,
            "kinds": list(_PHASES),
            "of": of,
            "start": (shown["start_ns"] - view.span[0]).to_list(),
            "end": (shown["end_ns"] - view.span[0]).to_list(),
            "words": [
                f"{format_several(requests, 'request')}, {format_several(tokens, 'token')}"
                for tokens, requests in numbers.rows()
            ],
        }
    ]


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
        heat=("share_pct",) if name in ("token_time", "first_token_time") else (),
    )
    return [table]
