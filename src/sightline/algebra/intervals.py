"""Interval algebra on integer ns, columnar: unions, gaps, and the disjoint partition.

All intervals are half-open, [start, end). Frames carry their groups (rank, device) as columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def clip(
    frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str], *, keep_empty: bool = False
) -> pl.DataFrame:
    """Intervals cut to the windows of their group.

    `windows` has the columns `by`, window_start_ns and window_end_ns, one row a group. What falls
    outside is dropped; intervals of no length are dropped unless `keep_empty` and they lie inside.
    """
    cut = (
        frame.join(windows.select(*by, "window_start_ns", "window_end_ns"), on=list(by))
        .with_columns(
            start_ns=pl.max_horizontal("start_ns", "window_start_ns"),
            end_ns=pl.min_horizontal("end_ns", "window_end_ns"),
        )
        .drop("window_start_ns", "window_end_ns")
    )
    shorter = (
        pl.col("start_ns") <= pl.col("end_ns")
        if keep_empty
        else (pl.col("start_ns") < pl.col("end_ns"))
    )
    return cut.filter(shorter)


def merge(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of the intervals of each group: disjoint, sorted, touching ones joined."""
    if frame.is_empty():
        return frame.select(*by, "start_ns", "end_ns")
    reach = pl.col("end_ns").cum_max().over(by).shift(1).over(by)
    return (
        frame.select(*by, "start_ns", "end_ns")
        .sort(*by, "start_ns", "end_ns")
        .with_columns(_new=(pl.col("start_ns") > reach).fill_null(value=True))
        .with_columns(_island=pl.col("_new").cum_sum().over(by))
        .group_by(*by, "_island", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("_island")
    )


def covered(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """How many ns of each group the intervals cover, overlaps counted once: column `covered_ns`."""
    return (
        merge(frame, by)
        .group_by(by, maintain_order=True)
        .agg(covered_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    )


def gaps(frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The parts of the windows that no interval covers, sorted by group and start."""
    edge = windows.select(*by, start_ns="window_start_ns", end_ns="window_start_ns")
    last = windows.select(*by, start_ns="window_end_ns", end_ns="window_end_ns")
    inside = clip(frame.select(*by, "start_ns", "end_ns"), windows, by)
    # The window's edges are intervals of no length, so the first and last gap need no special
    # case.
    return (
        merge(pl.concat([inside, edge, last]), by)
        .select(*by, start_ns="end_ns", end_ns=pl.col("start_ns").shift(-1).over(by))
        .filter(pl.col("start_ns") < pl.col("end_ns"))
        .sort(*by, "start_ns")
    )


def partition(
    frame: pl.DataFrame, windows: pl.DataFrame, by: Sequence[str], classes: Sequence[str]
) -> pl.DataFrame:
    """The windows cut into disjoint parts: each moment goes to the first class active in it.

    `frame` has the columns `by`, start_ns, end_ns and `class_`, one of `classes`. The answer has
    one row a group with `window_ns`, a column per class, and `idle_ns` for the rest, all int64
    ns; each is added up on its own, and they sum to the window exactly.

    Sweep: +1 at each start and −1 at each end of a class, added up in order of time; between two
    neighbouring edges the set of active classes does not change. The window's own edges count
    too, so that its first and last idle time lie between two edges.
    """
    inside = clip(frame.select(*by, "start_ns", "end_ns", "class_"), windows, by)
    delta = [(pl.col("class_") == c).cast(pl.Int32).alias(c) for c in classes]
    starts = inside.select(*by, pl.col("start_ns").alias("t"), *delta)
    ends = inside.select(*by, pl.col("end_ns").alias("t"), *[-d for d in delta])
    nothing = [pl.lit(0, pl.Int32).alias(c) for c in classes]
    first = windows.select(*by, pl.col("window_start_ns").alias("t"), *nothing)
    last = windows.select(*by, pl.col("window_end_ns").alias("t"), *nothing)
    edges = (
        pl.concat([starts, ends, first, last])
        .group_by(*by, "t")
        .agg(pl.col(c).sum() for c in classes)
        .sort(*by, "t")
        .with_columns(pl.col(c).cum_sum().over(by) for c in classes)
        .with_columns(length=(pl.col("t").shift(-1).over(by) - pl.col("t")).fill_null(0))
    )
    owner: pl.Expr = pl.lit("idle")
    for c in reversed(classes):
        owner = pl.when(pl.col(c) > 0).then(pl.lit(c)).otherwise(owner)
    names = [*classes, "idle"]
    parts = (
        edges.with_columns(owner=owner)
        .group_by(by)
        .agg(pl.col("length").filter(pl.col("owner") == n).sum().alias(f"{n}_ns") for n in names)
    )
    total = windows.select(*by, window_ns=pl.col("window_end_ns") - pl.col("window_start_ns"))
    return total.join(parts, on=list(by)).sort(by)


def depth_at(events: pl.DataFrame, by: Sequence[str], enter: str, leave: str) -> pl.Series:
    """For each row, how many other rows of its group have entered and not left at its entry.

    A row that leaves at the very moment of the entry is out; of rows that enter at the same
    moment, those earlier in the frame are in.
    """
    rows = events.select(*by, enter, leave).with_row_index("_row")
    steps = pl.concat(
        [
            rows.select(*by, "_row", t=enter, delta=pl.lit(1, pl.Int32)),
            rows.select(*by, "_row", t=leave, delta=pl.lit(-1, pl.Int32)),
        ]
    ).sort(*by, "t", "delta", "_row")
    depth = (
        steps.with_columns(depth=pl.col("delta").cum_sum().over(by))
        .filter(pl.col("delta") == 1)
        .sort("_row")
        .get_column("depth")
    )
    return (depth - 1).cast(pl.Int64)
