"""Questions about the nesting of host operations. Ids are preorder, so a subtree is a range."""

from __future__ import annotations

import polars as pl


def nearest_ancestor(
    host: pl.DataFrame, start: pl.Series, wanted: pl.Series, *, itself: bool = True
) -> pl.Series:
    """For each id in `start`, the nearest ancestor whose id is in `wanted`, or null.

    With `itself`, an id that is wanted is its own answer. `host` has host_op_id and parent_id.
    Climbs one level at a time, all ids at once: as many rounds as the deepest climb.
    """
    parents = host.select("host_op_id", "parent_id")
    marked = wanted.unique().alias("host_op_id").to_frame().with_columns(hit=pl.lit(value=True))
    todo = pl.DataFrame({"row": pl.int_range(start.len(), eager=True), "host_op_id": start})
    if not itself:
        todo = _up(todo, parents)
    done = [pl.DataFrame(schema={"row": pl.Int64, "host_op_id": pl.Int64})]
    while todo.height:
        todo = todo.drop_nulls("host_op_id").join(marked, on="host_op_id", how="left")
        done.append(todo.filter("hit").select("row", "host_op_id"))
        todo = _up(todo.filter(pl.col("hit").is_null()).select("row", "host_op_id"), parents)
    found = pl.concat(done)
    rows = pl.DataFrame({"row": pl.int_range(start.len(), eager=True)})
    return rows.join(found, on="row", how="left", maintain_order="left").get_column("host_op_id")


def _up(todo: pl.DataFrame, parents: pl.DataFrame) -> pl.DataFrame:
    return todo.join(parents, on="host_op_id", how="left").select("row", host_op_id="parent_id")


def open_at(host: pl.DataFrame, threads: pl.DataFrame, at: str) -> pl.Series:
    """The innermost range that is open on a thread at a time, or null, for each row of `threads`.

    `threads` has rank, pid, tid and the column named by `at` (ns).
    """
    by = ["rank", "pid", "tid"]
    candidates = (
        threads.select(*by, t=at)
        .with_row_index("row")
        .sort("t")
        .join_asof(
            host.select(*by, "host_op_id", "start_ns").sort("start_ns", "host_op_id"),
            left_on="t",
            right_on="start_ns",
            by=by,
            check_sortedness=False,
        )
        .select("row", "t", "host_op_id")
    )
    spans = host.select("host_op_id", "parent_id", "end_ns")
    done = [pl.DataFrame(schema={"row": pl.UInt32, "host_op_id": pl.Int64})]
    while candidates.height:
        candidates = candidates.drop_nulls("host_op_id").join(spans, on="host_op_id", how="left")
        is_open = pl.col("end_ns") > pl.col("t")
        done.append(candidates.filter(is_open).select("row", "host_op_id"))
        candidates = candidates.filter(~is_open).select("row", "t", host_op_id="parent_id")
    rows = pl.DataFrame({"row": pl.int_range(threads.height, eager=True, dtype=pl.UInt32)})
    return rows.join(pl.concat(done), on="row", how="left", maintain_order="left").get_column(
        "host_op_id"
    )


def subtree_sum(host: pl.DataFrame, value: str) -> pl.Series:
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
    """Whether no ancestor of a range has the same text in `name`: such rows add up without

    counting a moment twice. `host` is in order of host_op_id.
    """
    reach = pl.col("subtree_end_id").cum_max().shift(1).over("recording_id", name)
    return host.select((pl.col("host_op_id") >= reach).fill_null(value=True)).to_series()
