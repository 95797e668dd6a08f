"""What an inference server did, for all views: its steps by phase, a token's time, its load."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.engine_steps import list_engine_steps

_GAPS = ("no_request_ns", "in_step_ns", "scheduler_ns", "unclear_ns")


def summarize_serving(run: Run) -> dict[str, Any]:
    """Plain rows under `phases`, `tokens`, `gaps`, `load` and `about`; {} of other programs.

    Times are ns of the first rank, as ranks that serve one model run the same steps.
    """
    steps = list_engine_steps(run)
    found: dict[str, Any] = {}
    if steps.height:
        rank = steps.item(0, "rank")
        mine = pl.col("rank") == rank
        known = run.ask("engine_steps").filter(mine)
        found["about"] = known.select("engine", "source", "confidence").row(0, named=True)
        found["phases"] = run.ask("engine_cycles").filter(mine).to_dicts()
        found["gaps"] = known.select(pl.col(_GAPS).sum()).row(0, named=True)
        try:
            found["tokens"] = run.ask("token_time").filter(mine).to_dicts()
        except MissingDataError:
            found["tokens"] = []
    if any(run.rows(name) for name in ("served_requests", "serving_stats", "counters")):
        try:
            found["load"] = run.ask("serving_load").to_dicts()
        except MissingDataError:
            return found
    return found
