"""How often a stall comes back: every so many steps, or every so much time."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.scalars import sum_column
from sightline.core.units import format_ns

# Three of a kind make two equal distances: fewer are no period.
LEAST_STALLS = 3
# Stalls are what takes at least half of the largest, if together they are most of the time
# (ours: the rest is usual jitter).
STALL_SHARE, MOST_SHARE = 0.5, 0.8
# Moments are a period where no distance is further from the median than this (ours).
JITTER = 0.1
_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def describe_period(gaps: pl.DataFrame, steps: pl.DataFrame) -> str | None:
    """'in every 8th step', 'every 1.02 s', or None where the time comes back in no such way.

    `gaps` has rank, device_id, start_ns, end_ns and duration_ns; `steps` rank and start_ns, in
    order. Of several devices the one that loses most is asked.
    """
    place = ["rank", "device_id"]
    worst = (
        gaps.group_by(place)
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", *place, descending=[True, False, False])
    )
    mine = gaps.join(worst.head(1), on=place, how="semi").sort("start_ns")
    numbered = steps.unique(["rank", "start_ns"], maintain_order=True).join(
        worst.head(1).select("rank"), on="rank", how="semi"
    )
    if numbered.height > LEAST_STALLS:
        distances = _measure_step_distances(mine, numbered.sort("start_ns"))
        if distances is None or distances.n_unique() != 1:
            return None
        (every,) = distances.unique()
        return f"in every {_format_ordinal(every)} step" if every > 1 else None
    return _describe_moments(mine)


def _measure_step_distances(gaps: pl.DataFrame, steps: pl.DataFrame) -> pl.Series | None:
    """How many steps lie between those with stalls; None where no few steps hold the time."""
    numbered = steps.with_row_index("step").with_columns(pl.col("step").cast(pl.Int64))
    at = find_latest(gaps, "end_ns", numbered, "start_ns", ["rank"])
    lost = gaps.select("duration_ns", step=at).drop_nulls("step")
    each = lost.group_by("step").agg(pl.col("duration_ns").sum()).sort("step")
    stalled = _select_stalls(each)
    return None if stalled is None else stalled.get_column("step").diff().drop_nulls()


def _describe_moments(gaps: pl.DataFrame) -> str | None:
    """Stalls at even distances of time, where no steps are marked."""
    stalled = _select_stalls(gaps)
    if stalled is None:
        return None
    apart = stalled.get_column("start_ns").diff().drop_nulls()
    middle = apart.median()
    if not isinstance(middle, float) or ((apart - middle).abs() > JITTER * middle).any():
        return None
    return f"every {format_ns(round(middle))}"


def _select_stalls(each: pl.DataFrame) -> pl.DataFrame | None:
    """The rows that hold nearly all of the time, if they are some, but not all."""
    length = pl.col("duration_ns")
    stalled = each.filter(length >= STALL_SHARE * length.max())
    most = sum_column(stalled, "duration_ns") >= MOST_SHARE * sum_column(each, "duration_ns")
    return stalled if most and stalled.height >= LEAST_STALLS else None


def _format_ordinal(n: int) -> str:
    teen = 10 < n % 100 < 20
    return f"{n}{'th' if teen else _ORDINALS.get(n % 10, 'th')}"
