"""What kinds of work kernels do, by their names: what a person asks first of a busy GPU.

Of a program with kernels of its own most have no kind, and then nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.units import format_pct
from sightline.timeline.kernel_kinds import name_kinds

# What reads and writes memory and computes next to nothing: what fusing shortens.
_MOVING = (
    *("normalization", "softmax", "copies and layout", "casts and quantization"),
    *("elementwise", "reductions"),
)
_KNOWN_PCT = 50.0  # ours: below, the kinds are not those of the program
_LEAST_PCT = 5.0  # of the kernel time, for a kind to be named
MOSTLY_PCT = 50.0
_MOST = 300  # names, of which each is taken apart: the rest is a small part of the time


@dataclass(frozen=True)
class Kinds:
    """Shares of the kernel time, %: of each kind that is worth naming, and of what moves data."""

    shares: tuple[tuple[str, float], ...]
    moving_pct: float

    @property
    def text(self) -> str:
        """'by kind: 41.4 % elementwise, 28.2 % matrix products'."""
        return "by kind: " + ", ".join(f"{format_pct(pct)} {kind}" for kind, pct in self.shares)


def split_into_kinds(kernels: pl.DataFrame) -> Kinds | None:
    """The kinds of kernels (`name`, `total_ns`), or None where most have none that is known."""
    whole = sum_column(kernels, "total_ns")
    kernels = kernels.group_by("name").agg(pl.col("total_ns").sum()).top_k(_MOST, by="total_ns")
    kind = name_kinds(kernels.get_column("name"))
    each = (
        kernels.with_columns(kind=kind)
        .group_by("kind")
        .agg(pl.col("total_ns").sum())
        .drop_nulls("kind")
        .sort("total_ns", "kind", descending=[True, False])
    )
    if not whole or 100 * sum_column(each, "total_ns") < _KNOWN_PCT * whole:
        return None
    shares = {name: 100 * ns / whole for name, ns in each.rows()}
    named = tuple((name, pct) for name, pct in shares.items() if pct >= _LEAST_PCT)
    other = 100 - sum(shares.values())
    if other >= _LEAST_PCT:
        named = (*named, ("other", other))
    return Kinds(named, sum(shares.get(name, 0.0) for name in _MOVING))
