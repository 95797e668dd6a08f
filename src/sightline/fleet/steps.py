"""The steps of a job of many ranks: where each ends on the rank that counts them.

As that rank marks them, else by the order of its collectives, which come back in every step.
"""

from __future__ import annotations

import polars as pl

from sightline.fleet.job import Job
from sightline.timeline.iterations import find_period

MARKED, FOUND = "marked", "order of collectives"


def find_step_ends(job: Job) -> tuple[list[int], str]:
    """The places in the job's rows at which steps end, in order, and how they were found.

    Of the lowest rank that marks steps, else of the lowest one. What comes before the first whole
    step of an order that was found belongs to that step.
    """
    placed = job.rows.select(
        "rank", "who", "nth", "step", "what", "group_size", "bytes", at=pl.int_range(pl.len())
    )
    marked = placed.filter(pl.col("step").is_not_null())
    if marked.height:
        mine = marked.filter(pl.col("rank") == pl.col("rank").min()).sort("nth")
        ends = mine.group_by("step").agg(pl.col("at").last()).sort("step")
        return ends.get_column("at").to_list(), MARKED
    mine = placed.filter(pl.col("who") == pl.col("who").min()).sort("nth")
    code = mine.select(pl.struct("what", "group_size", "bytes").rank("dense")).to_series()
    found = find_period(code.cast(pl.UInt64))
    if found is None:
        return [], FOUND
    period, lead = found[0], mine.height % found[0]
    return mine.get_column("at").to_list()[lead + period - 1 :: period], FOUND
