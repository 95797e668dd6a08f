"""Which device operations an annotation holds: those whose launching call lies inside it."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import list_device_ops, list_nvtx_ranges


def build_annotation_tree(run: Run) -> pl.DataFrame:
    """Push/pop ranges with `up` (the enclosing range), `level`, `children`; in order of start.

    `number` is that of the range's event, as nsys prints it (2023.4.4, corpus nsys/own_cpu), or
    where that is not known counts from 1 in that order; `up_number` is that of `up`, and `trail`
    are the numbers from the outermost range to it, ':1:5:6'.
    """
    ranges = list_nvtx_ranges(run, kinds=("pushpop",)).sort("start_ns", "host_op_id")
    ids = ranges.get_column("host_op_id")
    # Other host ranges may lie between two annotations.
    up = find_nearest_ancestor(run.table("host_ops"), ids, ids, itself=False)
    ranges = ranges.with_columns(up.alias("up"), number=_number_ranges(ranges, 1))
    numbers = ranges.select(up="host_op_id", up_number="number")
    ranges = ranges.join(numbers, on="up", how="left", maintain_order="left")
    children = (
        ranges.group_by(host_op_id="up")
        .agg(children=pl.len().cast(pl.Int64), children_ns=pl.col("ns").sum())
        .drop_nulls("host_op_id")
    )
    ranges = ranges.join(children, on="host_op_id", how="left", maintain_order="left").with_columns(
        pl.col("children", "children_ns").fill_null(0)
    )
    return _add_trail(ranges)


def _number_ranges(ranges: pl.DataFrame, first: int) -> pl.Series:
    """Their events' numbers; from `first` on where these are not known, or are of several files."""
    rows = ranges.get_column("event_row")
    if rows.null_count() or ranges.get_column("recording_id").n_unique() > 1:
        return pl.int_range(first, first + rows.len(), dtype=pl.Int64, eager=True)
    return rows


def _add_trail(ranges: pl.DataFrame) -> pl.DataFrame:
    """`level` and `trail`, from the roots down, one level at a time."""
    roots = ranges.filter(pl.col("up").is_null()).select(
        "host_op_id", level=pl.lit(0, pl.Int64), trail=pl.format(":{}", "number")
    )
    found, below = (
        [roots],
        ranges.filter(pl.col("up").is_not_null()).select("host_op_id", "up", "number"),
    )
    while below.height and found[-1].height:
        parents = found[-1].rename({"host_op_id": "up"})
        here = below.join(parents, on="up").select(
            "host_op_id", level=pl.col("level") + 1, trail=pl.format("{}:{}", "trail", "number")
        )
        below = below.join(here, on="host_op_id", how="anti")
        found.append(here)
    return ranges.join(pl.concat(found), on="host_op_id", how="left", maintain_order="left")


def find_held_ops(run: Run, ops: pl.DataFrame) -> pl.DataFrame:
    """Pairs `host_op_id` (a range) and `device_op_id`: every range around the launch counts."""
    host = run.table("host_ops")
    launches = ops.select("device_op_id", "launch_id").drop_nulls()
    nested = list_nvtx_ranges(run, kinds=("pushpop",)).get_column("host_op_id")
    parents = host.select("host_op_id", "parent_id")
    marked = nested.to_frame().with_columns(hit=pl.lit(value=True))
    found = [pl.DataFrame(schema={"host_op_id": pl.Int64, "device_op_id": pl.Int64})]
    climbing = launches.rename({"launch_id": "host_op_id"})
    while climbing.height:
        climbing = (
            climbing.join(parents, on="host_op_id", how="left")
            .select("device_op_id", host_op_id="parent_id")
            .drop_nulls("host_op_id")
        )
        hits = climbing.join(marked, on="host_op_id", how="semi")
        found.append(hits.select("host_op_id", "device_op_id"))
    found.append(_find_held_apart(run, launches, host))
    return pl.concat(found).sort("host_op_id", "device_op_id")


def _find_held_apart(run: Run, launches: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The same for start/end ranges, which lie outside the nesting: by time, on one thread."""
    ranges = list_nvtx_ranges(run, kinds=("startend",)).filter(
        pl.col("end_tid").is_null() | (pl.col("end_tid") == pl.col("tid"))
    )
    if ranges.is_empty():
        return pl.DataFrame(schema={"host_op_id": pl.Int64, "device_op_id": pl.Int64})
    thread = ["recording_id", "pid", "tid"]
    calls = launches.join(
        host.select(*thread, launch_id="host_op_id", call_start="start_ns", call_end="end_ns"),
        on="launch_id",
    )
    spans = ranges.select(
        *(pl.col(c).alias(f"of_{c}") for c in thread), "host_op_id", "start_ns", "end_ns"
    )
    return calls.join_where(
        spans,
        *(pl.col(c) == pl.col(f"of_{c}") for c in thread),
        pl.col("call_start") >= pl.col("start_ns"),
        pl.col("call_end") <= pl.col("end_ns"),
    ).select("host_op_id", "device_op_id")


def project_ranges(run: Run) -> pl.DataFrame:
    """Ranges that hold GPU work, with `ops`, `from_ns` and `projected_ns`: its first to its last.

    Start/end ranges have level 0 and no place in the stack.
    """
    work = list_device_ops(run, "kernel", "memcpy", "memset", "graph")
    spans = (
        find_held_ops(run, work)
        .join(work.select("device_op_id", op_start="start_ns", op_end="end_ns"), on="device_op_id")
        .group_by("host_op_id")
        .agg(
            ops=pl.len().cast(pl.Int64),
            from_ns=pl.col("op_start").min(),
            projected_ns=pl.col("op_end").max() - pl.col("op_start").min(),
        )
    )
    tree = build_annotation_tree(run)
    apart = list_nvtx_ranges(run, kinds=("startend",)).sort("start_ns", "host_op_id")
    apart = apart.with_columns(
        number=_number_ranges(apart, tree.height + 1),
        level=pl.lit(0, pl.Int64),
        children=pl.lit(0, pl.Int64),
    ).with_columns(trail=pl.format(":{}", "number"))
    return (
        pl.concat([tree, apart], how="diagonal")
        .join(spans, on="host_op_id")
        .sort("from_ns", "number")
    )
