"""Questions about the nesting of host operations. Ids are preorder, so a subtree is a range."""

from __future__ import annotations

import polars as pl

from sightline.algebra.latest import find_latest
from sightline.algebra.lookup import find_rows


def find_nearest_ancestor(
    host: pl.DataFrame, start: pl.Series, wanted: pl.Series, *, itself: bool = True
) -> pl.Series:
    """For each id in `start`, the nearest ancestor whose id is in `wanted`, or null.

    With `itself`, an id that is wanted is its own answer. `host` has host_op_id and parent_id.
    Climbs one level at a time, all ids at once: as many rounds as the deepest climb.
    """
    ids = host.get_column("host_op_id")
    # Rows instead of ids: then going up a level is one gather.
    up = find_rows(ids, host.get_column("parent_id"))
    marks = find_rows(ids, wanted).drop_nulls()
    hit = pl.repeat(value=False, n=host.height, eager=True).scatter(marks, [True] * marks.len())
    places = find_rows(ids, start)
    todo = pl.DataFrame({"row": pl.int_range(start.len(), eager=True), "at": places})
    if not itself:
        todo = _climb(todo, up)
    done = [pl.DataFrame(schema={"row": pl.Int64, "at": pl.Int64})]
    while todo.height:
        todo = todo.drop_nulls("at")
        there = hit.gather(todo.get_column("at"))
        done.append(todo.filter(there))
        todo = _climb(todo.filter(~there), up)
    found = pl.concat(done)
    answer = pl.repeat(None, start.len(), dtype=pl.Int64, eager=True)
    return answer.scatter(found.get_column("row"), ids.gather(found.get_column("at")))


def _climb(todo: pl.DataFrame, parents: pl.Series) -> pl.DataFrame:
    return todo.with_columns(at=parents.gather(todo.get_column("at")))


def find_open_range(host: pl.DataFrame, threads: pl.DataFrame, at: str) -> pl.Series:
    """The innermost range that is open on a thread at a time, or null, for each row of `threads`.

    `threads` has rank, pid, tid and the column named by `at` (ns).
    """
    begun = find_latest(threads, at, host, "start_ns", ["rank", "pid", "tid"], ties=["host_op_id"])
    todo = threads.select(t=at).with_row_index("row").with_columns(at=begun)
    ids, ends = host.get_column("host_op_id"), host.get_column("end_ns")
    up = find_rows(ids, host.get_column("parent_id"))
    done = [pl.DataFrame(schema={"row": pl.UInt32, "at": pl.Int64})]
    while todo.height:
        todo = todo.drop_nulls("at")
        is_open = ends.gather(todo.get_column("at")) > todo.get_column("t")
        done.append(todo.filter(is_open).select("row", "at"))
        todo = _climb(todo.filter(~is_open), up)
    found = pl.concat(done)
    answer = pl.repeat(None, threads.height, dtype=pl.Int64, eager=True)
    answer = answer.scatter(found.get_column("row"), ids.gather(found.get_column("at")))
    return answer.alias("host_op_id")


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
