"""Ranges of CPU threads as trees: sorted into preorder, with ids, parents, depths, subtree ends."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline._native import trees as native_trees
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.model.constants import find_constants, find_null_columns

_NAMES = ("parent_id", "depth", "subtree_end_id")
_NO_THREAD = -(2**63) + 1  # stands for a thread without a number; such ranges come first


def nest_ranges(
    frame: pl.DataFrame,
    thread: Sequence[str] = ("pid", "tid"),
    *,
    order: pl.Expr | None = None,
    apart: pl.Expr | None = None,
) -> pl.DataFrame:
    """The ranges in preorder with host_op_id (from 0), parent_id, depth and subtree_end_id.

    A range belongs to the innermost range of its thread that is open when it starts and holds at
    least half of it: clocks in µs round a child past its parent's end, but a step that begins while
    the call that marks it is still returning is not part of that call. Of ranges that start and end
    together, the one with the lower `order` is the outer one, then the one that comes first in
    `frame`. Rows where `apart` holds take part in no nesting (they may end on another thread, or
    overlap): they come last, as roots without descendants.
    """
    lone = None
    if apart is not None:
        mask = frame.select(apart.fill_null(value=False)).to_series()
        if mask.any():
            lone, frame = (
                frame.filter(mask).sort("start_ns", maintain_order=True),
                frame.filter(~mask),
            )
    nested = _nest(frame, thread, order)
    if lone is None:
        return nested
    first = nested.height
    ids = pl.int_range(first, first + pl.len(), dtype=pl.Int64)
    return pl.concat([nested, lone.with_columns(ids.alias("host_op_id"), *_roots(ids))])


def _nest(frame: pl.DataFrame, thread: Sequence[str], order: pl.Expr | None) -> pl.DataFrame:
    number = pl.col(thread).fill_null(_NO_THREAD).clip(_NO_THREAD)  # damage may say any number
    keys = frame.select(number, "start_ns", "end_ns")
    if order is not None:
        tie = frame.select(order).to_series()
        if tie.n_unique() > 1:
            keys = keys.with_columns(tie.alias("_order"))
    found = unpack_columns(native_trees(pack_numbers(keys), len(thread)))
    del keys  # of millions of rows it is not little, and copies of the frame's columns come next
    if "row" in found.columns:
        frame = _reorder(frame, found.get_column("row"))
    ids = pl.int_range(pl.len(), dtype=pl.Int64)
    tree = [found.get_column(n).cast(pl.Int64) for n in _NAMES if n in found.columns]
    return frame.with_columns(ids.alias("host_op_id"), *(tree or _roots(ids)))


def _roots(ids: pl.Expr) -> list[pl.Expr]:
    """parent_id, depth and subtree_end_id of ranges that neither lie in others nor hold any."""
    tree = (pl.lit(None, pl.Int64), pl.lit(0, pl.Int64), ids + 1)  # one value takes no memory
    return [e.alias(name) for name, e in zip(_NAMES, tree, strict=True)]


def _reorder(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The frame in another order. A column of one value stays one value, and takes no memory."""
    same = dict.fromkeys(find_null_columns(frame)) | find_constants(frame)
    moved = frame.drop(same)[rows]
    return moved.with_columns(
        pl.lit(value, frame.schema[name]).alias(name) for name, value in same.items()
    ).select(frame.columns)
