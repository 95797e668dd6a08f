"""What of the time of several kernels stays, and which of them it fills."""

from __future__ import annotations

import polars as pl


def add_factors(kernels: pl.DataFrame, by: str) -> pl.DataFrame:
    """Kernels with `factor`, where `kept_ns` of each group (`by`) stays.

    The time that stays fills the longest kernels, and the others are gone, with their launches.
    """
    in_order = kernels.sort(by, "length", descending=[False, True], maintain_order=True)
    before = pl.col("length").cum_sum().over(by) - pl.col("length")
    share = (pl.col("kept_ns") - before) / pl.col("length")
    return in_order.with_columns(factor=share.fill_nan(0.0).clip(0.0, 1.0))
