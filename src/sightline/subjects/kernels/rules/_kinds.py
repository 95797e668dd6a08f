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
_SHOWN_PCT = 0.05  # what is printed as more than nothing
MOSTLY_PCT = 50.0
_MOST = 300  # names, of which each is taken apart: the rest is a small part of the time


@dataclass(frozen=True)
class Kinds:
    """Shares of the kernel time, %: of each kind that is worth naming, and of what moves data.

    They add to 100: what is in small kinds is the rest.
    """

    shares: tuple[tuple[str, float], ...]
    moving_pct: float

    @property
    def text(self) -> str:
        """'by kind: 41.4 % elementwise, 28.2 % matrix products'."""
        return "by kind: " + ", ".join(f"{format_pct(pct)} {kind}" for kind, pct in self.shares)


def split_into_kinds(kernels: pl.DataFrame, communication_ns: int = 0) -> Kinds | None:
    """The kinds of kernels (`name`, `total_ns`), or None where most have none that is known.

    `communication_ns` is what other kernels took, whose kind that is.
    """
    computing = sum_column(kernels, "total_ns")
    whole = computing + communication_ns
    kernels = kernels.group_by("name").agg(pl.col("total_ns").sum()).top_k(_MOST, by="total_ns")
    kind = name_kinds(kernels.get_column("name"))
    each = (
        kernels.with_columns(kind=kind)
        .group_by("kind")
        .agg(pl.col("total_ns").sum())
        .drop_nulls("kind")
        .sort("total_ns", "kind", descending=[True, False])
    )
    if not computing or 100 * sum_column(each, "total_ns") < _KNOWN_PCT * computing:
        return None
    shares = {name: 100 * ns / whole for name, ns in each.rows()}
    shares["communication"] = 100 * communication_ns / whole
    other = 100 - sum(shares.values())
    named = sorted((item for item in shares.items() if item[1] >= _LEAST_PCT), key=lambda s: -s[1])
    if other >= _LEAST_PCT:
        named.append(("other", other))
    if (rest := 100 - sum(pct for _, pct in named)) >= _SHOWN_PCT:
        named.append(("the rest", rest))
    return Kinds(tuple(named), sum(shares.get(name, 0.0) for name in _MOVING))
