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
    inside = moments.clip(before.item(0), before.item(-1))
    place = find_latest(inside.to_frame("at"), "at", before.to_frame("at"), "at", [])
    behind = (place + 1).clip(upper_bound=before.len() - 1)
    here = pl.DataFrame(
        {
            "at": inside - before.item(0),
            "x": before.gather(place) - before.item(0),
            "y": after.gather(place) - after.item(0),
            "x_behind": before.gather(behind) - before.item(0),
            "y_behind": after.gather(behind) - after.item(0),
        },
        schema_overrides=dict.fromkeys(("at", "x", "y", "x_behind", "y_behind"), pl.Float64),
    )
    slope = (pl.col("y_behind") - pl.col("y")) / (pl.col("x_behind") - pl.col("x"))
    further = slope * (pl.col("at") - pl.col("x")) + pl.col("y")
    moved = pl.when(pl.col("at") == pl.col("x")).then("y").otherwise(further)
    new: pl.Series = here.select(moved.round().cast(pl.Int64)).to_series() + after.item(0)
    new += moments - inside
    return new.alias(moments.name)
