"""Ranges of CPU threads as trees: sorted into preorder, with ids, parents, depths, subtree ends."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.algebra.nesting import nest
from sightline.algebra.order import KEY_LIMIT, by_start, group_numbers

# Each level costs one pass over the rows below it, about 60 ns a row; the stack of nest() about
# 500 ns a row, however deep. API calls are flat; Python stacks are 50 deep.
_COLUMNAR_LEVELS = 8
_NAMES = ("parent_id", "depth", "subtree_end_id")


def with_tree(
    frame: pl.DataFrame,
    thread: Sequence[str] = ("pid", "tid"),
    *,
    order: pl.Expr | None = None,
    apart: pl.Expr | None = None,
) -> pl.DataFrame:
    """The ranges in preorder with host_op_id (from 0), parent_id, depth and subtree_end_id.

    A range belongs to the innermost range of its thread that is open when it starts and holds at
    least half of it (see algebra.nesting.nest). Of ranges
    that start and end together, the one with the lower `order` is the outer one, then the one
    that comes first in `frame`. Rows where `apart` holds take part in no nesting (they may end on
    another thread, or overlap): they come last, as roots without descendants.
    """
    lone = None
    if apart is not None:
        mask = frame.select(apart.fill_null(value=False)).to_series()
        if mask.any():
            lone, frame = (
                frame.filter(mask).sort("start_ns", maintain_order=True),
                frame.filter(~mask),
            )
    frame, keys = _sorted(frame, thread, order)
    nested = frame.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("host_op_id"), *_nest(keys)
    )
    if lone is None:
        return nested
    first = nested.height
    ids = pl.int_range(first, first + pl.len(), dtype=pl.Int64)
    return pl.concat(
        [
            nested,
            lone.with_columns(
                ids.alias("host_op_id"),
                pl.lit(None, pl.Int64).alias("parent_id"),
                pl.lit(0, pl.Int64).alias("depth"),
                (ids + 1).alias("subtree_end_id"),
            ),
        ]
    )


def _sorted(
    frame: pl.DataFrame, thread: Sequence[str], order: pl.Expr | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The frame sorted, and its keys `start` and `end`: thread and time as one number each.

    A thread's keys all lie below those of the next thread, so what holds for times of one thread
    holds for keys of all threads together.
    """
    lane, lanes = group_numbers(frame, thread)
    low, high = frame.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    span = 1 if low is None else high - low + 1
    start, end = pl.col("start_ns") - (low or 0), pl.col("end_ns") - (low or 0)
    tie = pl.lit(0) if order is None else order
    if lane is None or lanes * span >= KEY_LIMIT:
        # Months of many threads: sort by four columns, nest by the stack.
        if lane is None:
            threads = frame.select(thread).unique().sort(*thread).with_row_index("_lane")
            lane = (
                frame.select(thread)
                .join(threads, on=list(thread), how="left", nulls_equal=True, maintain_order="left")
                .get_column("_lane")
            )
        keys = frame.select(lane=lane.cast(pl.Int64), start=start, end=end, order=tie)
        keys = keys.with_row_index("row").sort(
            "lane", "start", "end", "order", "row", descending=[False, False, True, False, False]
        )
        return frame[keys.get_column("row")], keys
    lane *= span
    keys = by_start(frame.select(start=start + lane, end=end + lane, order=tie))
    del lane  # of millions of rows it is not little, and copies of the frame's columns come next
    rows = keys.get_column("row")
    return (frame if rows.is_sorted() else _gathered(frame, rows)), keys


def _gathered(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The frame in another order. A column of one value stays one value, and takes no memory."""
    same: dict[str, pl.Expr] = {}
    for column in frame.get_columns():
        if column.null_count() == frame.height:
            same[column.name] = pl.lit(None, column.dtype)
        elif not column.null_count() and (column == column[0]).all():
            same[column.name] = pl.lit(column[0], column.dtype)
    moved = frame.drop(list(same))[rows]
    return moved.with_columns(e.alias(n) for n, e in same.items()).select(frame.columns)


def _nest(keys: pl.DataFrame) -> list[pl.Series | pl.Expr]:
    """parent_id, depth and subtree_end_id of rows in preorder.

    Level by level: of the rows that are left, one begins a new tree if it starts at or after the
    end of all rows before it; such rows are this level's, and the rest lie below them. That is
    what nest() finds where ranges do not cross. Outermost trees in which some do, or that are
    deeper than a few levels, are left to it.
    """
    n = keys.height
    if "lane" in keys.columns:
        found = nest(*(keys.get_column(c).to_list() for c in ("lane", "start", "end")))
        return [pl.Series(_NAMES[i], found[i], dtype=pl.Int64) for i in range(3)]
    flat = (pl.col("start") >= pl.col("end").cum_max().shift(1)).fill_null(value=True).all()
    if keys.select(flat).item():  # API calls alone: no need for the columns below
        following = pl.int_range(1, n + 1, dtype=pl.Int64)
        nothing = (pl.lit(None, pl.Int64), pl.lit(0, pl.Int64))  # one value takes no memory
        return [e.alias(name) for e, name in zip((*nothing, following), _NAMES, strict=True)]
    levels, hard = _by_level(keys)
    outermost = levels[0].filter(pl.col("id").is_in(hard.implode())) if hard.len() else None
    rows = pl.concat(levels).sort("id")
    if outermost is not None:
        rows = rows.update(_by_stack(keys, outermost), on="id", include_nulls=True)
    columns = (rows.get_column(c) for c in ("parent", "depth", "to"))
    return [c.alias(name) for c, name in zip(columns, _NAMES, strict=True)]


def _by_level(keys: pl.DataFrame) -> tuple[list[pl.DataFrame], pl.Series]:
    """The rows of each level (id, parent, depth, to), and the outermost trees that are hard.

    Rows of hard trees may be there with wrong numbers, and are there once.
    """
    n = keys.height
    left = keys.select(
        "start", "end", id=pl.int_range(pl.len(), dtype=pl.Int64), tree=pl.lit(None, pl.Int64),
        up=pl.lit(None, pl.Int64), up_end=pl.lit(n, pl.Int64),
    )  # fmt: skip
    levels = []
    hard = [pl.Series(dtype=pl.Int64)]
    for level in range(_COLUMNAR_LEVELS):
        if left.is_empty():
            break
        is_root = (pl.col("start") >= pl.col("end").cum_max().shift(1)).fill_null(value=True)
        left = left.with_columns(root=is_root)
        # A tree ends where the next one of its level begins, or where its parent's ends.
        roots = left.filter("root").with_columns(
            to=pl.min_horizontal(pl.col("id").shift(-1).fill_null(n), "up_end")
        )
        levels.append(roots.select("id", parent="up", depth=pl.lit(level, pl.Int64), to="to"))
        marks = roots.select(up="id", up_end="to", reach="end")
        left = (
            left.select(
                "start", "end", "id", "root",
                tree="tree" if level else pl.when("root").then("id").forward_fill(),
                up=pl.when("root").then("id").forward_fill(),
            )
            .filter(~pl.col("root"))
            .join(marks, on="up", maintain_order="left")
        )  # fmt: skip
        hard.append(left.filter(pl.col("end") > pl.col("reach")).get_column("tree"))
        left = left.drop("root", "reach")
    if left.height:
        hard.append(left.get_column("tree"))
        rest = left.select("id", parent="up", depth=pl.lit(0, pl.Int64), to="up_end")
        levels.append(rest)
    return levels, pl.concat(hard).unique()


def _by_stack(keys: pl.DataFrame, outermost: pl.DataFrame) -> pl.DataFrame:
    """All rows of these outermost trees (id, to), nested with a stack."""
    members = outermost.select(tree="id", id=pl.int_ranges("id", "to")).explode("id")
    ids = members.get_column("id")
    rows = keys.select("start", "end")[ids]
    parent, depth, end = nest(
        members.get_column("tree").to_list(),
        rows.get_column("start").to_list(),
        rows.get_column("end").to_list(),
    )
    # The rows of a tree follow one another, so its last descendant's id is the one before `to`.
    last = ids.gather(pl.Series(end, dtype=pl.Int64) - 1)
    return pl.DataFrame(
        {
            "id": ids,
            "parent": ids.gather(pl.Series(parent, dtype=pl.Int64)),
            "depth": pl.Series(depth, dtype=pl.Int64),
            "to": last + 1,
        }
    )
