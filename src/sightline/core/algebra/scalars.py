"""One number out of a column, with the type that its declaration promises."""

from __future__ import annotations

import polars as pl


def sum_column(frame: pl.DataFrame, column: str) -> int:
    """The sum of an integer column; 0 for no rows."""
    return int(frame.get_column(column).sum())


def find_largest(frame: pl.DataFrame, column: str) -> int:
    """The largest value of an integer column; 0 for no rows."""
    value = frame.get_column(column).max()
    return value if isinstance(value, int) else 0


def average_column(frame: pl.DataFrame, column: str) -> float:
    """The mean of a column; 0 for no rows."""
    value = frame.get_column(column).mean()
    return float(value) if isinstance(value, int | float) else 0.0


def find_span(frame: pl.DataFrame, column: str) -> tuple[float, float]:
    """The smallest and largest value of a column; zeros for no rows."""
    low, high = frame.get_column(column).min(), frame.get_column(column).max()
    if isinstance(low, int | float) and isinstance(high, int | float):
        return float(low), float(high)
    return 0.0, 0.0
