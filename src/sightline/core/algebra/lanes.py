"""Sub-rows: what overlaps on one row of the timeline gets rows of its own."""

from __future__ import annotations

import polars as pl

from sightline._native import lanes as native_lanes
from sightline.core.algebra.arrow import pack_numbers, unpack_columns


def assign_lanes(events: pl.DataFrame) -> pl.DataFrame:
    """The events with the column `lane`, sorted by track, lane and start.

    `events` has track, level, start_ns, end_ns. Within a lane nothing overlaps. Lanes of a track
    are numbered from 0: those of its level 0 first, then those of level 1, and so on. An event of
    no length takes 1 ns, so that two at the same moment stand side by side, not on each other. Of
    events that start together the longest comes first, then the earlier row.
    """
    if events.is_empty():
        return events.with_columns(lane=pl.lit(0, pl.Int32))
    placed = unpack_columns(
        native_lanes(pack_numbers(events.select("track", "level", "start_ns", "end_ns")))
    )
    return events[placed.get_column("row")].with_columns(placed.get_column("lane"))


def thin_events(events: pl.DataFrame, limit: int) -> tuple[pl.DataFrame, int]:
    """At most about `limit` rows: neighbours in a lane that are short become one mark.

    Adds `count` (events in the mark) and `busy_ns` (sum of their lengths), and returns how many
    events stand in marks of several. Events longer than the slice of time stay as they are.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    rows = events.with_columns(count=pl.lit(1, pl.Int64), busy_ns=length)
    if rows.height <= limit:
        return rows, 0
    span = int(rows.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item())
    lanes = rows.select("track", "lane").unique().height
    width = max(span * lanes // limit // 16, 1)
    while True:
        short = rows.filter(length < width)
        marks = (
            short.group_by("track", "lane", pl.col("start_ns") // width, maintain_order=True)
            .agg(
                pl.exclude("track", "lane", "start_ns", "end_ns", "count", "busy_ns").first(),
                pl.col("start_ns").min().alias("_start"),
                pl.col("end_ns").max(),
                pl.col("count", "busy_ns").sum(),
            )
            .drop("start_ns")
            .rename({"_start": "start_ns"})
        )
        whole = rows.filter(length >= width)
        if marks.height + whole.height <= limit or width > span:
            break
        width *= 2
    merged = int(marks.filter(pl.col("count") > 1).get_column("count").sum())
    both = pl.concat([whole, marks.select(whole.columns)])
    return both.sort("track", "lane", "start_ns", maintain_order=True), merged
