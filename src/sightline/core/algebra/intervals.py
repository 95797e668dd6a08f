"""Interval algebra on integer ns, columnar: unions, gaps, and the disjoint partition.

All intervals are half-open, [start, end). Frames carry their groups (rank, device) as columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline._native import cover as native_cover
from sightline._native import partition as native_partition
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import find_varying, select_varying
from sightline.core.algebra.order import sort_rows
from sightline.core.model.constants import find_single_values


def clip_intervals(
    frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str], *, keep_empty: bool = False
) -> pl.DataFrame:
    """Intervals cut to the windows of their group.

    `windows` has the columns `by`, window_start_ns and window_end_ns, one row a group. What falls
    outside is dropped; intervals of no length are dropped unless `keep_empty` and they lie inside.
    """
    edges = ["window_start_ns", "window_end_ns"]
    on = find_varying(by, frame, windows)
    if on:
        known = frame.join(windows.select(*on, *edges), on=on, maintain_order="left")
    else:  # all rows are of the one window, or there is none
        known = frame.join(windows.select(edges), how="cross", maintain_order="left")
    cut = known.with_columns(
        start_ns=pl.max_horizontal("start_ns", "window_start_ns"),
        end_ns=pl.min_horizontal("end_ns", "window_end_ns"),
    ).drop(edges)
    shorter = (
        pl.col("start_ns") <= pl.col("end_ns")
        if keep_empty
        else (pl.col("start_ns") < pl.col("end_ns"))
    )
    return cut.filter(shorter)


def is_one_group(frame: pl.DataFrame, by: Sequence[str]) -> bool:
    """Whether all rows belong to one group: what is asked per group can then be asked of all."""
    return frame.is_empty() or len(find_single_values(frame, by)) == len(by)


def merge_intervals(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of the intervals of each group: disjoint, sorted, touching ones joined."""
    if frame.is_empty():
        return frame.select(*by, "start_ns", "end_ns")
    rows = frame.select(*by, "start_ns", "end_ns")
    reach = pl.col("end_ns").cum_max()
    before = pl.col("_reach").shift(1)
    if not is_one_group(frame, by):
        group = select_varying(by, rows)  # by fewer columns it is faster
        reach, before = reach.over(group), before.over(group)
        rows = sort_rows(rows, [*group, "start_ns"])
    elif not rows.get_column("start_ns").is_sorted():
        rows = rows.sort("start_ns")
    rows = rows.with_columns(_reach=reach).with_columns(
        _new=(pl.col("start_ns") > before).fill_null(value=True)
    )
    # An island begins where a row is new, and ends before the next such row.
    ends = rows.filter(pl.col("_new").shift(-1, fill_value=True)).get_column("_reach")
    return rows.filter("_new").select(*by, "start_ns", end_ns=ends)


def measure_cover(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """How many ns of each group the intervals cover, overlaps counted once: column `covered_ns`."""
    return (
        merge_intervals(frame, by)
        .group_by(by, maintain_order=True)
        .agg(covered_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    )


def find_gaps(frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The parts of the windows that no interval covers, sorted by group and start."""
    edge = windows.select(*by, start_ns="window_start_ns", end_ns="window_start_ns")
    last = windows.select(*by, start_ns="window_end_ns", end_ns="window_end_ns")
    inside = clip_intervals(frame.select(*by, "start_ns", "end_ns"), windows, by)
    # The window's edges are intervals of no length, so the first and last gap need no special
    # case.
    return (
        merge_intervals(pl.concat([inside, edge, last]), by)
        .select(*by, start_ns="end_ns", end_ns=pl.col("start_ns").shift(-1).over(by))
        .filter(pl.col("start_ns") < pl.col("end_ns"))
        .sort(*by, "start_ns")
    )


def partition_windows(
    frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str], classes: Sequence[str]
) -> pl.DataFrame:
    """The windows cut into disjoint parts: each moment goes to the first class active in it.

    `windows` has one row a group. The answer has one row a group with `window_ns`, a column per
    class, and `idle_ns` for the rest, all int64 ns; each is added up on its own, and they sum to
    the window exactly.
    """
    class_ = pl.col("class_").cast(pl.Enum(classes), strict=False).to_physical()
    intervals = frame.select(*by, "start_ns", "end_ns", class_)
    edges = windows.select(*by, "window_start_ns", "window_end_ns")
    found = unpack_columns(
        native_partition(pack_numbers(intervals), pack_numbers(edges), len(classes))
    )
    parts = found.rename(
        {"idle": "idle_ns", **{f"part_{i}": f"{name}_ns" for i, name in enumerate(classes)}}
    )
    length = pl.col("window_end_ns") - pl.col("window_start_ns")
    return windows.select(*by, window_ns=length).hstack(parts).sort(by)


def measure_cover_until(
    queries: pl.DataFrame, at: str, intervals: pl.DataFrame, by: Sequence[str]
) -> pl.Series:
    """For each query, how many ns of its group the intervals cover before the time `at`."""
    return _measure_cover_at(queries, [at], intervals, by)


def measure_cover_between(
    queries: pl.DataFrame, since: str, until: str, intervals: pl.DataFrame, by: Sequence[str]
) -> pl.Series:
    """For each query, how many ns of its group the intervals cover between two times."""
    return _measure_cover_at(queries, [since, until], intervals, by)


def _measure_cover_at(
    queries: pl.DataFrame, moments: list[str], intervals: pl.DataFrame, by: Sequence[str]
) -> pl.Series:
    if intervals.is_empty() or queries.is_empty():
        return pl.repeat(0, queries.height, dtype=pl.Int64, eager=True)
    by = find_varying(by, queries, intervals)
    known = pack_numbers(intervals.select(*by, "start_ns", "end_ns"))
    # A moment may be called as a column of the group is.
    asked = queries.select(*by, *(pl.col(at).alias(f"_{at}") for at in moments))
    return unpack_columns(native_cover(known, pack_numbers(asked))).to_series()


def count_open_at(events: pl.DataFrame, by: Sequence[str], enter: str, leave: str) -> pl.Series:
    """For each row, how many other rows of its group have entered and not left at its entry.

    A row that leaves at the very moment of the entry is out; of rows that enter at the same
    moment, those earlier in the frame are in.
    """
    rows = events.select(*by, enter=enter, leave=leave).with_row_index("_row")
    # Who enters and leaves at one moment is in for no other row.
    stays = pl.col("enter") < pl.col("leave")
    entered, left = stays.cast(pl.Int64).cum_sum() - stays.cast(pl.Int64), pl.lit(1).cum_sum()
    if not is_one_group(rows, by):
        by = select_varying(by, rows)
        entered, left = entered.over(by), pl.int_range(1, pl.len() + 1).over(by)
    else:
        left, by = pl.int_range(1, pl.len() + 1), []
    gone = sort_rows(rows.filter(stays).select(*by, "leave"), ["leave"]).with_columns(left=left)
    out = gone.get_column("left").gather(find_latest(rows, "enter", gone, "leave", by))
    in_order = sort_rows(rows.with_columns(left=out), ["enter", "_row"])
    return (
        sort_rows(in_order.with_columns(entered=entered), ["_row"])
        .select(depth=(pl.col("entered") - pl.col("left").fill_null(0)).cast(pl.Int64))
        .to_series()
    )
