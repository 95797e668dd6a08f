"""Questions about the nesting of host operations. Ids are preorder, so a subtree is a range."""

from __future__ import annotations

import polars as pl

from sightline._native import climb as native_climb
from sightline._native import climb_to as native_climb_to
from sightline.core.algebra.arrow import pack_columns, unpack_columns
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import find_rows


def find_nearest_ancestor(
    host: pl.DataFrame,
    start: pl.Series,
    wanted: pl.Series,
    *,
    itself: bool = True,
    up: pl.Series | None = None,
) -> pl.Series:
    """For each id in `start`, the nearest ancestor whose id is in `wanted`, or null.

    With `itself`, an id that is wanted is its own answer. `host` has host_op_id and parent_id; `up`
    is what `find_parents` says of it, where that is known.
    """
    ids = host.get_column("host_op_id")
    up = find_parents(host) if up is None else up
    starts = find_rows(ids, start)
    starts = starts if itself else up.gather(starts)
    return ids.gather(climb_to_rows(up, find_rows(ids, wanted), starts))


def find_parents(host: pl.DataFrame) -> pl.Series:
    """The row (uint32) of each range's parent, or null: then going up a level is one gather."""
    rows = find_rows(host.get_column("host_op_id"), host.get_column("parent_id"))
    return rows.cast(pl.UInt32)


def find_open_range(
    host: pl.DataFrame, threads: pl.DataFrame, at: str, up: pl.Series | None = None
) -> pl.Series:
    """The innermost range that is open on a thread at a time, or null, for each row of `threads`.

    `threads` has rank, pid, tid and the column named by `at` (ns); `up` is what `find_parents` says
    of `host`, where that is known.
    """
    if threads.is_empty() or host.is_empty():
        return pl.repeat(None, threads.height, dtype=pl.Int64, eager=True).alias("host_op_id")
    begun = find_latest(threads, at, host, "start_ns", ["rank", "pid", "tid"], ties=["host_op_id"])
    up = find_parents(host) if up is None else up
    found = climb_ranges(host.get_column("end_ns"), up, begun, threads.get_column(at))
    return host.get_column("host_op_id").gather(found).alias("host_op_id")


def climb_ranges(
    values: pl.Series, parents: pl.Series, starts: pl.Series, above: pl.Series | int
) -> pl.Series:
    """From each row up to the first whose value is above the one asked for: its row, or null."""
    ranges = pl.DataFrame({"value": values, "parent": parents})
    asked = pl.DataFrame({"row": starts}).with_columns(above=above)
    found = native_climb(pack_columns(ranges), pack_columns(asked))
    return unpack_columns(found).to_series()


def climb_to_rows(parents: pl.Series, wanted: pl.Series, starts: pl.Series) -> pl.Series:
    """From each row up to the first that is among the wanted rows: its row, or null."""
    asked = (pack_columns(rows.to_frame()) for rows in (parents, wanted, starts))
    return unpack_columns(native_climb_to(*asked)).to_series()


def climb_to_last(up: pl.Series, wanted: pl.Series, starts: pl.Series) -> pl.Series:
    """From each row up to the outermost of its ancestors (itself among them) that is wanted.

    `up` is the row of each one's parent; all are rows, and the answer is null where none is.
    """
    found = climb_to_rows(up, wanted, starts)
    at = found.is_not_null().arg_true()
    while at.len():
        outer = climb_to_rows(up, wanted, up.gather(found.gather(at)))
        is_further = outer.is_not_null()
        at = at.filter(is_further)
        found = found.scatter(at, outer.filter(is_further))
    return found


def sum_subtrees(host: pl.DataFrame, value: str) -> pl.Series:
    """The sum of a column over each range and all its descendants.

    `host` holds all ranges of its recordings, in order of host_op_id.
    """
    rows = host.with_row_index("_row").with_columns(
        # Ids of a recording are consecutive, so a row's place follows from its id.
        _last=pl.col("_row").cast(pl.Int64) + pl.col("subtree_end_id") - pl.col("host_op_id")
    )
    running = pl.concat(
        [pl.Series([0], dtype=pl.Int64), host.get_column(value).fill_null(0).cum_sum()]
    )
    until = running.gather(rows.get_column("_last"))
    before = running.gather(rows.get_column("_row"))
    return (until - before).alias(value)


def is_outermost(host: pl.DataFrame, name: str) -> pl.Series:
    """Whether no ancestor of a range has the same text in `name`.

    Such rows add up without counting a moment twice. `host` is in order of host_op_id.
    """
    reach = pl.col("subtree_end_id").cum_max().shift(1).over("recording_id", name)
    return host.select((pl.col("host_op_id") >= reach).fill_null(value=True)).to_series()
