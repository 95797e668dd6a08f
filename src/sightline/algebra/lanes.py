"""Sub-rows: what overlaps on one row of the timeline gets rows of its own."""

from __future__ import annotations

import polars as pl


def in_lanes(events: pl.DataFrame) -> pl.DataFrame:
    """The events with the column `lane`, sorted by track, lane and start.

    `events` has track, level, start_ns, end_ns. Within a lane nothing overlaps. Lanes of a track
    are numbered from 0: those of its level 0 first, then those of level 1, and so on. An event of
    no length takes 1 ns, so that two at the same moment stand side by side, not on each other.
    """
    if events.is_empty():
        return events.with_columns(lane=pl.lit(0, pl.Int32))
    by = ["track", "level"]
    rows = events.sort(*by, "start_ns", "end_ns", descending=[False, False, False, True])
    rows = rows.with_columns(_end=pl.max_horizontal("end_ns", pl.col("start_ns") + 1))
    reach = pl.col("_end").cum_max().over(by).shift(1).over(by)
    rows = rows.with_columns(_new=(pl.col("start_ns") >= reach).fill_null(value=True))
    if rows.get_column("_new").all():
        return _numbered(rows.with_columns(_sub=pl.lit(0, pl.Int32)))
    # Islands: events that hang together by overlap. Only those of more than one need a choice.
    rows = rows.with_columns(_island=pl.col("_new").cum_sum()).with_row_index("_row")
    rows = rows.with_columns(_several=pl.len().over("_island") > 1)
    hard = rows.filter("_several").select("_row", "_island", "start_ns", "_end")
    subs = _first_fit(
        hard.get_column("_island").to_list(),
        hard.get_column("start_ns").to_list(),
        hard.get_column("_end").to_list(),
    )
    chosen = hard.select("_row").with_columns(_sub=pl.Series(subs, dtype=pl.Int32))
    rows = rows.join(chosen, on="_row", how="left", maintain_order="left")
    return _numbered(
        rows.with_columns(pl.col("_sub").fill_null(0)).drop("_row", "_island", "_several")
    )


def _first_fit(island: list[int], start: list[int], end: list[int]) -> list[int]:
    """For each event, the first sub-row that is free at its start; rows come sorted by start."""
    chosen: list[int] = []
    current, ends = -1, list[int]()
    for place, (name, begin) in enumerate(zip(island, start, strict=True)):
        if name != current:
            current, ends = name, []
        for lane, busy_until in enumerate(ends):
            if busy_until <= begin:
                ends[lane] = end[place]
                break
        else:
            lane = len(ends)
            ends.append(end[place])
        chosen.append(lane)
    return chosen


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Lanes counted through the levels of each track; rows in order of track, lane, start."""
    used = (
        rows.select("track", "level", "_sub")
        .unique()
        .sort("track", "level", "_sub")
        .with_columns(lane=pl.int_range(pl.len(), dtype=pl.Int32).over("track"))
    )
    return (
        rows.join(used, on=["track", "level", "_sub"], how="left", maintain_order="left")
        .drop("_sub", "_new", "_end")
        .sort("track", "lane", "start_ns", maintain_order=True)
    )


def thinned(events: pl.DataFrame, limit: int) -> tuple[pl.DataFrame, int]:
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
