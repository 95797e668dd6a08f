"""Changes of the dependency graph: what threads did in given ranges takes no time."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import Texts, mark_rows
from sightline.core.model.run import Run
from sightline.replay.gains import starts_in_window
from sightline.replay.replay import (
    free_calls,
    is_op,
    select_calls_of,
    select_ops,
    shorten_thinking,
)
from sightline.replay.waits import THREAD
from sightline.timeline.host_ranges import measure_in_ranges


def remove_compilation(
    nodes: pl.DataFrame,
    ranges: pl.DataFrame,
    gaps: pl.DataFrame,
    calls: Callable[[Texts], pl.Series],
) -> pl.DataFrame:
    """The nodes where compilers (`ranges`) beside these gaps take no time, nor such `calls`."""
    beside = measure_in_ranges(nodes, gaps, ["rank", "device_id"]) > 0
    thought = measure_in_ranges(nodes, ranges, THREAD) * beside.cast(pl.Int64)
    return shorten_thinking(free_calls(nodes, calls(Texts(nodes.get_column("name")))), thought)


def remove_ranges(nodes: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """The nodes where threads take no time in these ranges, nor calls there that launch nothing."""
    starts = nodes.select(*THREAD, "start_ns", after=pl.col("start_ns") + 1)
    inside = measure_cover_between(starts, "start_ns", "after", ranges, THREAD) > 0
    launching = mark_rows(nodes.get_column("launch"), nodes.height)
    free = free_calls(nodes, inside & ~(launching & (nodes.get_column("kind") == "call")))
    return shorten_thinking(free, measure_in_ranges(nodes, ranges, THREAD))


def shorten_first_launches(nodes: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The nodes where the launches that end these gaps take no longer than a launch usually does.

    Of a call that returned, the time over the median of all calls that launch is cut; of its
    operation, what came on top of a usual launch.
    """
    first = select_ops(nodes, gaps.get_column("after_id"))
    slow = select_calls_of(nodes, first)
    launching = nodes.get_column("launch").drop_nulls().unique()
    length = pl.col("end_ns") - pl.col("start_ns")
    usual = int(nodes[launching].select(length.median()).item() or 0) if launching.len() else 0
    lag = int(nodes.get_column("launch_lag_ns").median() or 0)  # type: ignore[arg-type]
    return nodes.with_columns(
        end_ns=pl.when(pl.lit(slow))
        .then(pl.col("start_ns") + pl.min_horizontal(length, pl.lit(usual)))
        .otherwise("end_ns"),
        residual_ns=pl.when(pl.lit(first)).then(0).otherwise("residual_ns"),
        launch_lag_ns=pl.when(pl.lit(first))
        .then(pl.min_horizontal("launch_lag_ns", pl.lit(lag)))
        .otherwise("launch_lag_ns"),
    )


def free_hosts(run: Run, nodes: pl.DataFrame, rank: int | None = None) -> pl.DataFrame:
    """The nodes where no call takes time, nor what comes between calls, of all ranks or of one.

    Waits end when the device is done. What a rank's host did before its window begins stays.
    """
    inside = starts_in_window(run, nodes)
    since = nodes.filter(inside).group_by("rank").agg(since=pl.col("start_ns").min())
    if rank is not None:
        since = since.filter(pl.col("rank") == rank)
    within = (
        nodes.select("rank", "start_ns")
        .join(since, on="rank", how="left", maintain_order="left")
        .select((pl.col("start_ns") >= pl.col("since")).fill_null(value=False))
        .to_series()
    )
    host = ~is_op(nodes) & within
    return nodes.with_columns(
        end_ns=pl.when(host).then("start_ns").otherwise("end_ns"),
        prev_lag_ns=pl.when(host & pl.col("prev").is_not_null()).then(0).otherwise("prev_lag_ns"),
        residual_ns=pl.when(host & pl.any_horizontal(pl.col("prev", "launch").is_not_null()))
        .then(0)
        .otherwise("residual_ns"),
    )
