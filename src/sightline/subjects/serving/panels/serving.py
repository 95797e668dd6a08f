"""An inference server: its steps as a strip, its requests in rows, and where tokens' time goes."""

from __future__ import annotations

import polars as pl

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.units import format_ns, format_pct, format_several
from sightline.errors import MissingDataError
from sightline.timeline.engine_gaps import list_request_spans
from sightline.timeline.engine_steps import list_engine_steps

PANEL = Panel("serving", "Serving", 12)


def data(view: View) -> list[Block]:
    """Phases, a token's time, the load, the layers, and each step with a jump to the timeline."""
    made = [
        *_draw_steps(view),
        *_draw_requests(view),
        *_draw_waterfall(view, "first_token_time", "The time to the first token, part by part"),
        *_draw_waterfall(view, "token_time", "The time of a token, part by part"),
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
MOST_ROWS = 60  # of requests: what a screen has room for
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
            "moments": True,
            "note": "what is empty lies between them",
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


def _draw_requests(view: View) -> list[Block]:
    """The clients' requests, a row each: until the first token, and the tokens behind it."""
    if list_request_spans(view.run).is_empty():
        return []
    asked = view.run.table("served_requests").drop_nulls(["start_ns", "end_ns", "ttft_ns"])
    asked = asked.sort("start_ns", "request_id")
    shown = asked.head(MOST_ROWS)
    title = "Requests in time"
    if asked.height > shown.height:
        title += f": the first {shown.height:,} of {asked.height:,}"
    begin = (shown["start_ns"] - view.span[0]).to_list()
    first = (shown["start_ns"] + shown["ttft_ns"] - view.span[0]).to_list()
    end = (shown["end_ns"] - view.span[0]).to_list()
    words = [
        f"{format_several(prompt or 0, 'prompt token')}, {format_several(output or 0, 'token')}"
        for prompt, output in shown.select("prompt_tokens", "output_tokens").rows()
    ]
    each = range(shown.height)
    return [
        {
            "kind": "strip",
            "title": title,
            "moments": True,
            "note": "",
            "kinds": ["tokens behind it", "to the first token"],  # coloured as decode and prefill
            "rows": [*each, *each],
            "labels": [str(number) for number in shown["request_id"].to_list()],
            "of": [1] * shown.height + [0] * shown.height,
            "start": [*begin, *first],
            "end": [*first, *end],
            "words": words * 2,
        }
    ]


def _draw_waterfall(view: View, name: str, title: str) -> list[Block]:
    """The parts of a mean time, each beginning where the one before ends, of the first rank."""
    try:
        parts = view.run.ask(name)
    except MissingDataError:
        return []
    mine = parts.filter(pl.col("rank") == parts.item(0, "rank"), pl.col("mean_ns") > 0)
    if mine.is_empty():
        return []
    ends = mine["mean_ns"].cum_sum()
    return [
        {
            "kind": "strip",
            "title": title,
            "moments": False,
            "note": "",
            "kinds": ["mean"],
            "rows": list(range(mine.height)),
            "labels": [
                f"{format_ns(ns)} · {part}" for part, ns in mine.select("part", "mean_ns").rows()
            ],
            "of": [0] * mine.height,
            "start": (ends - mine["mean_ns"]).to_list(),
            "end": ends.to_list(),
            "words": [format_pct(share) for share in mine["share_pct"].to_list()],
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
