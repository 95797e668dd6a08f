"""What questions about threads share: their names, sums of lengths, and the thread that matters."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.model.columns import Column, duration, number
from sightline.core.model.run import Run
from sightline.timeline.thread_states import THREAD

# Nearest rank, as `interrupt_times` has it.
LENGTHS: tuple[Column, ...] = (
    number("count", "how many"),
    duration("total_ns", "all of them together"),
    duration("mean_ns", "mean, rounded"),
    duration("p99_ns", "99 of 100 took no longer (nearest rank)"),
    duration("max_ns", "the longest"),
)


def sum_lengths() -> list[pl.Expr]:
    """The columns of `LENGTHS`, of a column `length` in ns."""
    length = pl.col("length")
    return [
        pl.len().cast(pl.Int64).alias("count"),
        length.sum().alias("total_ns"),
        length.mean().round().cast(pl.Int64).alias("mean_ns"),
        length.sort().get((0.99 * pl.len()).ceil().cast(pl.Int64) - 1).alias("p99_ns"),
        length.max().alias("max_ns"),
    ]


def list_thread_names(run: Run) -> pl.DataFrame:
    """One row per thread: rank, recording_id, tid, thread_name."""
    named = run.table("threads").select(*THREAD, pl.col("thread_name").cast(pl.String))
    return named.unique(THREAD, keep="last", maintain_order=True)


def name_threads(frame: pl.DataFrame, run: Run, tid: str, name: str) -> pl.DataFrame:
    """The frame with the names of the threads in column `tid`; null where none was recorded."""
    names = list_thread_names(run).rename({"tid": tid, "thread_name": name})
    return frame.join(
        names, on=["rank", "recording_id", tid], how="left", nulls_equal=True, maintain_order="left"
    )


def describe_thread(tid: str, name: str) -> pl.Expr:
    """`name (tid)`, or `thread tid` where it has no name."""
    number_ = pl.col(tid).cast(pl.String)
    named = pl.concat_str(pl.col(name), pl.lit(" ("), number_, pl.lit(")"))
    return pl.coalesce(named, pl.lit("thread ") + number_)


def find_longest(frame: pl.DataFrame, by: Sequence[str], of: str) -> pl.DataFrame:
    """For each group the value of `of` with the longest sum of `length`: `by` and `of`."""
    return (
        frame.drop_nulls(of)
        .group_by(*by, of)
        .agg(pl.col("length").sum())
        .sort("length", of, descending=[True, False])
        .unique(by, keep="first", maintain_order=True)
        .select(*by, of)
    )
