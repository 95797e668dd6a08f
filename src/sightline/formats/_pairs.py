"""Begins and ends of ranges, matched."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.model.declare import Quality


def pair_ends(ends: pl.DataFrame, from_end: Sequence[str] = ()) -> tuple[pl.DataFrame, int]:
    """The begins with `end_ns`, null where nothing closes them; and how many ends close nothing.

    `ends` has `lane`, `time`, `event` (the order of those of one time) and `is_begin`. An end
    closes the innermost range that is open in its lane. Columns of `from_end` that a begin lacks
    are its end's. All lanes at once: a begin's end is the next row of its level.
    """
    ends = ends.sort("lane", "time", "event").with_columns(
        step=pl.when("is_begin").then(1).otherwise(-1).cast(pl.Int64)
    )
    level = pl.col("step").cum_sum().over("lane")
    lowest = pl.min_horizontal(level.cum_min().over("lane"), 0)
    # An end that goes lower than ever closes nothing.
    before = lowest.shift(1).over("lane").fill_null(0)
    kept = ends.filter((pl.col("step") == 1) | (level >= before))
    kept = kept.with_columns(level=level - pl.when(pl.col("step") == 1).then(1).otherwise(0))
    following = [
        pl.coalesce(name, pl.col(name).shift(-1).over("lane", "level")) for name in from_end
    ]
    closing = pl.col("time").shift(-1).over("lane", "level")
    begins = kept.with_columns(*following, end_ns=closing).filter(pl.col("step") == 1)
    return begins.drop("step", "level"), ends.height - kept.height


def close_pairs(
    pairs: pl.DataFrame, lane: Sequence[str], table: str, from_end: Sequence[str] = ()
) -> tuple[pl.DataFrame, list[Quality]]:
    """Ranges of `side` begin and end, matched by `lane`; what was lost of the table is noted.

    What is still open ends with the last event.
    """
    sides = pairs.filter(pl.col("side").is_in(["begin", "end"]))
    numbered = sides.with_columns(
        lane=pl.struct(lane).rank("dense"), is_begin=pl.col("side") == "begin"
    )
    begins, lost = pair_ends(numbered, from_end)
    notes = []
    if still_open := begins.get_column("end_ns").null_count():
        text = f"rows of {table} were still open at the recording's end: they end with it"
        notes.append(Quality("unclosed_ranges", "info", text, still_open))
    if lost:
        text = f"ends of rows of {table} whose start was not recorded were left out"
        notes.append(Quality("unmatched_ends", "info", text, lost))
    last = pl.lit(pairs.get_column("time").max(), pl.Int64)
    return begins.with_columns(pl.col("end_ns").fill_null(last)), notes
