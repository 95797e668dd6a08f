"""A timeline's kernels opened up by a kernel profiler's samples of the same kernels.

Times always come from the timeline: the kernel profiler locks clocks and flushes caches, so only
the shares inside a kernel are taken from it.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.flames.device_samples import place_stalls
from sightline.flames.stacks import Stacks, merge_stacks


def open_kernels(run: Run, stacks: Stacks) -> Stacks:
    """The stacks, each one that ends in a kernel with samples split by their shares.

    A weight is split in whole numbers that add up to it exactly. Split stacks are graded
    'apportioned', whatever they were, since a kernel's executions are taken to be alike.
    """
    shares = _list_shares(run, stacks.frames)
    if shares.is_empty():
        return stacks
    known = stacks.frames.height
    long = shares.select("share", layer="layers", name="names").explode("layer", "name")
    extra = (
        long.select("layer", "name")
        .unique()
        .join(stacks.frames, on=["layer", "name"], how="anti")
        .sort("layer", "name")
        .with_columns(frame_id=pl.int_range(known, known + pl.len(), dtype=pl.UInt32))
    )
    frames = pl.concat([stacks.frames, extra.select(stacks.frames.columns)])
    tails = (
        long.join(frames, on=["layer", "name"], maintain_order="left")
        .group_by("share", maintain_order=True)
        .agg(tail="frame_id")
    )
    shares = shares.join(tails, on="share").sort("leaf", "share")
    rows = stacks.rows.with_row_index("_row").with_columns(leaf=pl.col("frames").list.last())
    hit = rows.join(
        shares.select("leaf", "tail", "until", "whole"), on="leaf", maintain_order="left_right"
    )
    split = [_split_time(w) for w in stacks.weights]
    opened_rows = hit.with_columns(
        *split,
        frames=pl.concat_list("frames", "tail"),
        match=pl.when(pl.col("match") == "unmatched")
        .then("match")
        .otherwise(pl.lit("apportioned")),
    )
    rest = rows.join(shares, on="leaf", how="anti")
    together = pl.concat([part.select(stacks.rows.columns) for part in (opened_rows, rest)])
    return merge_stacks(Stacks(frames, together))


def _split_time(weight: str) -> pl.Expr:
    """A weight's part for each share: differences of the rounded-down running total.

    In 128 bits, since a weight in ns times a number of samples exceeds 64.
    """
    wide = pl.col(weight).cast(pl.Int128)
    upto = (wide * pl.col("until").cast(pl.Int128)) // pl.col("whole").cast(pl.Int128)
    return (upto - upto.shift(1).over("_row").fill_null(0)).cast(pl.Int64).alias(weight)


def _list_shares(run: Run, frames: pl.DataFrame) -> pl.DataFrame:
    """For each kernel frame with samples: the frames below it, and the running share of samples.

    Executions of one name are added up. `until` is the running number of samples up to and
    with this one, of `whole`.
    """
    kernels = run.table("profiled_kernels").select(
        "kernel_id", name=pl.coalesce("name", "function")
    )
    samples = place_stalls(run).join(kernels, on="kernel_id").filter(pl.col("samples") > 0)
    leaves = frames.filter(layer="kernel").select("name", leaf="frame_id")
    return (
        samples.group_by("name", "names", "layers")
        .agg(pl.col("samples").sum())
        .join(leaves, on="name")
        .sort("leaf", "names")
        .with_columns(
            until=pl.col("samples").cum_sum().over("leaf"),
            whole=pl.col("samples").sum().over("leaf"),
        )
        .drop("name")
        .with_row_index("share")
    )
