"""How long intervals cover the time before a moment: one sort by start, and no union is made."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.algebra.lookup import number_groups


def measure_cover_before(intervals: pl.DataFrame, moments: pl.Series) -> pl.Series:
    """For each moment, how many ns before it the intervals (start_ns, end_ns) cover.

    All intervals are one group. The difference of two answers is the cover of the time between.
    """
    if intervals.is_empty():
        return pl.repeat(0, moments.len(), dtype=pl.Int64, eager=True)
    rows = intervals.select("start_ns", "end_ns")
    if not rows.get_column("start_ns").is_sorted():
        rows = rows.sort("start_ns")
    reach = pl.col("end_ns").cum_max()
    # What an interval adds to those that start before it, added up.
    added = pl.col("end_ns") - pl.max_horizontal("start_ns", reach.shift(1))
    rows = rows.select("start_ns", reach=reach, sum=added.clip(lower_bound=0).cum_sum())
    last = rows.get_column("start_ns").search_sorted(moments, side="right").cast(pl.Int64) - 1
    at = rows.select("reach", "sum")[last.clip(lower_bound=0)]
    # All that start by then and reach beyond it cover the time from it to their reach.
    before = at.get_column("sum") - (at.get_column("reach") - moments).clip(lower_bound=0)
    return pl.select(pl.when(last >= 0).then(before).otherwise(0)).to_series()


def measure_run_before(intervals: pl.DataFrame, moments: pl.Series) -> pl.Series:
    """For each moment, how many ns before it the intervals last, each counted by itself.

    All intervals are one group; where two overlap, the time counts twice.
    """
    begun, ended = (
        _sum_since(intervals.get_column(name).sort(), moments) for name in ("start_ns", "end_ns")
    )
    return (begun - ended).cast(pl.Int64)


def _sum_since(edges: pl.Series, moments: pl.Series) -> pl.Series:
    """For each moment, how long ago all edges before it were, in all.

    Sums of the times of a million operations do not fit into 64 bits.
    """
    sums = pl.concat([pl.Series([0], dtype=pl.Int128), edges.cast(pl.Int128).cum_sum()])
    count = edges.search_sorted(moments, side="left").cast(pl.Int64)
    return count.cast(pl.Int128) * moments.cast(pl.Int128) - sums.gather(count)


def measure_alone(frame: pl.DataFrame, by: Sequence[str]) -> pl.Series:
    """For each interval, how many ns of it no other interval of its group covers."""
    group, groups = number_groups(frame, by)
    rows = frame.select("start_ns", "end_ns", row=pl.int_range(pl.len(), dtype=pl.UInt32))
    if groups.height == 1:
        parts = [rows]
    else:
        parts = rows.with_columns(group=group).partition_by("group", include_key=False)
    answer = pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    for part in parts:
        own = part if part.get_column("start_ns").is_sorted() else part.sort("start_ns")
        answer = answer.scatter(own.get_column("row"), _measure_alone_of_group(own))
    return answer


def _measure_alone_of_group(rows: pl.DataFrame) -> pl.Series:
    """The same of one group, sorted by start.

    From one start to the next only the interval that reaches farthest can be alone, from where
    the second farthest ends. It stays the one until another reaches farther, so what it has alone
    is a run of rows.
    """
    before = pl.col("end_ns").cum_max().shift(1)
    rows = rows.select(
        "start_ns",
        reach=pl.col("end_ns").cum_max(),
        second=pl.when(before.is_not_null()).then(pl.min_horizontal("end_ns", before)).cum_max(),
        farthest=(pl.col("end_ns") > before).fill_null(value=True),
        following=pl.col("start_ns").shift(-1),
    )
    piece = pl.min_horizontal("reach", "following") - pl.max_horizontal("second", "start_ns")
    done = pl.col("done")
    return (
        rows.with_columns(done=piece.clip(lower_bound=0).cum_sum())
        .with_columns(
            until=pl.when(pl.col("farthest").shift(-1, fill_value=True)).then(done).backward_fill()
        )
        .select(
            pl.when("farthest").then(pl.col("until") - done.shift(1, fill_value=0)).otherwise(0)
        )
        .to_series()
    )
