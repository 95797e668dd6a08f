"""The step of a side as whole nanoseconds that sum exactly, so that differences do, too."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.compare.sample import KEY, Sample


def average_leaves(samples: Sequence[Sample]) -> pl.DataFrame:
    """What the mean step of a side is made of: the leaves of all its runs, each run weighing alike.

    `ns` are whole nanoseconds whose sum is the mean step, rounded; each is within one of its exact
    mean. `instances` and `total_ns` are means over steps and devices.
    """
    shares = [
        sample.leaves.select(
            *KEY,
            exact=pl.col("own_ns") / (sample.count * len(samples)),
            total_ns=pl.col("total_ns") / (sample.count * len(samples)),
            instances=pl.col("instances") / (sample.count * len(samples)),
        )
        for sample in samples
    ]
    leaves = pl.concat(shares).group_by(KEY).agg(pl.exclude(KEY).sum()).sort(*KEY)
    return leaves.with_columns(ns=apportion(leaves.get_column("exact"))).drop("exact")


def apportion(shares: pl.Series) -> pl.Series:
    """Integers that sum to the rounded sum of the shares, each within one of its share.

    What rounding down leaves goes to the largest remainders (Hamilton's method), of equal ones to
    the first.
    """
    floors = shares.floor().cast(pl.Int64)
    left = round(float(shares.sum())) - int(floors.sum())
    order = (shares - floors).arg_sort(descending=True)
    more = pl.repeat(0, shares.len(), dtype=pl.Int64, eager=True)
    return (floors + more.scatter(order.head(left), 1)).alias("ns")
