"""What the launching threads did between their calls: how much of it lies in given ranges."""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import covered_until

_THREAD = ["rank", "pid", "tid"]
# PyTorch's own name of the wait for a batch, and what people call theirs.
LOADING = r"(?i)dataloader"


def in_ranges(nodes: pl.DataFrame, ranges: pl.DataFrame, by: list[str]) -> pl.Series:
    """For each node, how much of the time since the call before it lies in the ranges, ns."""
    if ranges.is_empty():
        return pl.repeat(0, nodes.height, dtype=pl.Int64, eager=True)
    spans = nodes.select(
        *by, until="start_ns", since=pl.col("start_ns") - pl.col("prev_lag_ns").fill_null(0)
    )
    found = covered_until(spans, "until", ranges, by) - covered_until(spans, "since", ranges, by)
    return found.clip(lower_bound=0)


def loading(nodes: pl.DataFrame, host: pl.DataFrame) -> pl.Series:
    """How much of the time before each call its thread spent in a data loader, ns."""
    ranges = host.filter(
        pl.col("name").str.contains(LOADING) & ~pl.col("layer").is_in(["runtime", "driver"])
    )
    return in_ranges(nodes, ranges, _THREAD)


def usual_ns(nodes: pl.DataFrame) -> int:
    """The median time between two calls."""
    value = nodes.filter(pl.col("kind") == "call").get_column("prev_lag_ns").median()
    return int(value) if isinstance(value, int | float) else 0
