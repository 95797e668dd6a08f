"""Times of one clock on another: an offset, and a drift from a moment on."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Clock:
    """What a recording's times lack to be on the run's clock, which is another rank's.

    To a time t are added `shift_ns` + `drift` × (t − `at_ns`), rounded to the ns.
    """

    shift_ns: int
    drift: float
    at_ns: int

    def move(self, moment: pl.Expr) -> pl.Expr:
        """A time on the run's clock."""
        return move_moment(moment, pl.lit(self.shift_ns), pl.lit(self.drift), pl.lit(self.at_ns))


def move_moment(moment: pl.Expr, shift_ns: pl.Expr, drift: pl.Expr, at_ns: pl.Expr) -> pl.Expr:
    """A time, int64 ns, on another clock."""
    away = (moment - at_ns).cast(pl.Float64) * drift
    return moment + shift_ns + away.round().cast(pl.Int64)
