"""Moments between others whose new times are known.

NumPy has this as one function, but takes a third as long to load as Polars (benchmarks/start.py).
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest


def interpolate(moments: pl.Series, before: pl.Series, after: pl.Series) -> pl.Series:
    """When moments are that lie between anchors, ns; outside of them they move as the nearest does.

    `before` are the anchors' times, in order, and `after` their new ones; of equal ones the last
    counts. Computed in ns from the first anchor, since a float holds 2^53 of them, and rounded half
    to even.
    """
    first, last = before.item(0), before.item(-1)
    inside = moments.clip(first, last)
    place = find_latest(inside.to_frame("at"), "at", before.to_frame("at"), "at", [])
    known, new, row = pl.lit(before) - first, pl.lit(after) - after.item(0), pl.lit(place)
    behind = (row + 1).clip(upper_bound=before.len() - 1)
    here = pl.select(
        at=(pl.lit(inside) - first).cast(pl.Float64),
        x=known.gather(row).cast(pl.Float64),
        y=new.gather(row).cast(pl.Float64),
        x_behind=known.gather(behind).cast(pl.Float64),
        y_behind=new.gather(behind).cast(pl.Float64),
        further=pl.lit(moments - inside) + after.item(0),
    )
    slope = (pl.col("y_behind") - pl.col("y")) / (pl.col("x_behind") - pl.col("x"))
    between = slope * (pl.col("at") - pl.col("x")) + pl.col("y")
    moved = pl.when(pl.col("at") == pl.col("x")).then("y").otherwise(between)
    return here.select(
        (moved.round().cast(pl.Int64) + pl.col("further")).alias(moments.name)
    ).to_series()
