"""The critical path as plain data: its length, what it is made of, and its pieces."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run


def sum_pieces(pieces: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """How many pieces each group has, and their time: `by`, pieces, total_ns, the largest first."""
    return (
        pieces.group_by(by)
        .agg(pieces=pl.len(), total_ns=pl.col("duration_ns").sum())
        .sort("total_ns", *by, descending=[True] + [False] * len(by))
    )


def describe_path(run: Run) -> dict[str, Any]:
    """`path_ns`, `parts` with their share of it (`pct`, 0 to 100), and all `pieces`.

    Raises MissingDataError where the recording has no device operation.
    """
    pieces = run.ask("critical_path")
    whole = max(int(pieces.get_column("duration_ns").sum()), 1)
    parts = sum_pieces(pieces, ["part"]).with_columns(pct=100 * pl.col("total_ns") / whole)
    return {"path_ns": whole, "parts": parts.to_dicts(), "pieces": pieces.to_dicts()}
