"""Sub-rows: what overlaps on one row of the timeline gets rows of its own."""

from __future__ import annotations

import polars as pl

# Keys of line and time stay below it, so that no sum of two leaves the range of int64.
KEY_LIMIT = 2**62


def assign_lanes(events: pl.DataFrame) -> pl.DataFrame:
    """The events with the column `lane`, sorted by track, lane and start.

    `events` has track, level, start_ns, end_ns. Within a lane nothing overlaps. Lanes of a track
    are numbered from 0: those of its level 0 first, then those of level 1, and so on. An event of
    no length takes 1 ns, so that two at the same moment stand side by side, not on each other.
    """
    if events.is_empty():
        return events.with_columns(lane=pl.lit(0, pl.Int32))
    keys, lines = _key_events(events)
    # Of events that start together the longest comes first, then the earlier row.
    keys = keys.with_row_index("row").sort(
        "start", "end", descending=[False, True], maintain_order=True
    )
    # Keys of a line all lie below those of the next, so no line needs a look of its own.
    new = (pl.col("start") >= pl.col("busy_until").cum_max().shift(1)).fill_null(value=True)
    keys = keys.select("row", "line", "start", "busy_until", new=new)
    sub = pl.repeat(0, keys.height, dtype=pl.Int32, eager=True)
    if not keys.get_column("new").all():
        # Islands: events that hang together by overlap. Only those of more than one need a choice.
        hard = keys.select(
            "start",
            "busy_until",
            island=pl.col("new").cum_sum(),
            place=pl.int_range(pl.len()),
            lone=pl.col("new") & pl.col("new").shift(-1, fill_value=True),
        ).filter(~pl.col("lone"))
        asked = (hard.get_column(c).to_list() for c in ("island", "start", "busy_until"))
        sub = sub.scatter(hard.get_column("place"), pl.Series(_first_fit(*asked), dtype=pl.Int32))
    return _number_lanes(events, keys.select("row", "line", sub=sub), lines)


def _key_events(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each event's line, and its start, end and busy_until as numbers beyond those of lines before.

    A line is a level of a track. The second answer is the lines, in order: track and level.
    """
    levels = 1 + int(events.select(pl.col("level").max()).item())
    code = events.select(pl.col("track").cast(pl.Int64) * levels + pl.col("level")).to_series()
    used = code.unique().sort()
    lines = used.to_frame("code").select(
        track=pl.col("code") // levels, level=pl.col("code") % levels
    )
    line = used.search_sorted(code).cast(pl.Int64)
    times = events.select(
        start="start_ns",
        end="end_ns",
        busy_until=pl.max_horizontal("end_ns", pl.col("start_ns") + 1),
    )
    low, high = times.select(pl.col("start").min(), pl.col("busy_until").max()).row(0)
    span = high - low + 1
    if used.len() * span >= KEY_LIMIT:  # months of many tracks: a time's place among all of them
        moments = pl.concat(times.get_columns()).unique().sort()
        times = times.select(
            moments.search_sorted(c).cast(pl.Int64).alias(c.name) for c in times.get_columns()
        )
        low, span = 0, moments.len()
    return times.select(pl.all() - low + line * span, line=line), lines


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


def _number_lanes(events: pl.DataFrame, keys: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Lanes counted through the levels of each track; rows in order of track, lane, start.

    `keys` has row, line and sub of each event, in order of line and start.
    """
    subs = 1 + int(keys.select(pl.col("sub").max()).item())
    code = keys.select(pl.col("line") * subs + pl.col("sub")).to_series()
    used = code.unique().sort()
    lane = (
        lines.select("track")[used // subs]
        .select(pl.int_range(pl.len(), dtype=pl.Int32).over("track"))
        .to_series()
    )
    rows = keys.get_column("row")
    if subs > 1:  # else they are in order
        order = (code * keys.height + pl.int_range(keys.height, eager=True)).arg_sort()
        rows, code = rows.gather(order), code.gather(order)
    return events[rows].with_columns(lane=lane.gather(used.search_sorted(code)))


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
