"""Ranks against each other: who is late when, what it costs the job, and why."""

from __future__ import annotations

import polars as pl

from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError
from sightline.fleet.answer import judge_ranks
from sightline.fleet.job import LEAST_PEERS
from sightline.fleet.read import Reduced, lay_over, reduce_run
from sightline.views.html.ranks import show_job

PANEL = Panel("ranks", "Ranks", 75)


def data(view: View) -> list[Block]:
    """The page of `sightline ranks` in short: heat map, causes, ranks, steps, pipeline."""
    whose = {part.rank for part in view.run.parts}
    if len(whose) < LEAST_PEERS:
        raise MissingDataError(
            "no ranks to compare", why=f"fewer than {LEAST_PEERS} ranks: neither is the usual one"
        )
    places = view.run.table("recordings").select("rank", "path").unique("rank", keep="first")
    ranks = lay_over(list(reduce_run(view.run)))
    found = Reduced(ranks, [], dict(places.drop_nulls().iter_rows()))
    if not any(rank.rows.height for rank in found.ranks) or len(found.ranks) < LEAST_PEERS:
        raise MissingDataError("no ranks to compare", why="no communication between them")
    answer = judge_ranks(found)
    if answer.job.rows.select(pl.col("alone").all()).item():
        raise MissingDataError(
            "no ranks to compare", why="no collective of two ranks could be matched"
        )
    return show_job(answer)
