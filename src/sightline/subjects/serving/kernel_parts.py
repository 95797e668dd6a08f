"""What each kernel of a model's step does: the part of its layer, without any operator.

A model is a stack of equal layers, and in each the same parts come in the same order. A kernel's
name says its part where libraries name it so (kernel_parts.tsv, kernel_kinds.tsv). A matrix product
is of its place: behind the attention comes the output projection, the last one before the next
attention projects queries, keys and values, and what lies between is of the MLP, or chooses experts
where routing follows. A kernel whose name says nothing is of the part before it.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import polars as pl

from sightline.core.packaged_rows import read_rows
from sightline.timeline.kernel_kinds import COLLECTIVE, PRODUCT, name_kinds

ATTENTION, NORM, ROUTING, EXPERTS = "attention", "norm", "routing", "experts"
QKV, OUTPUT, MLP, VOCABULARY = "QKV projection", "output projection", "MLP", "vocabulary"
COMMUNICATION, CACHE, ROPE = "communication", "cache", "rope"
QUANTIZATION, SAMPLING, ACTIVATION = "quantization", "sampling", "activation"
# Kinds of kernels that are a part by themselves; others are called as their kind is.
_OF_KINDS = {
    "attention": ATTENTION,
    "normalization": NORM,
    COLLECTIVE: COMMUNICATION,
    "casts and quantization": QUANTIZATION,
}


def name_parts(ops: pl.DataFrame) -> pl.Series:
    """The part of each kernel of one step, which are in order, with `name` and `layer`.

    Null where neither its name nor its place says any.
    """
    names = ops.get_column("name").cast(pl.String)
    own = pl.DataFrame({"name": names}).join(
        _name_own(names.unique()), on="name", how="left", maintain_order="left"
    )
    known = own.get_column("part").to_list()
    layers = ops.get_column("layer").to_list()
    if all(layer is None for layer in layers):
        return pl.Series("part", known, pl.String)  # no place is known
    _place_products(known, layers)
    before: str | None = None
    for place, part in enumerate(known):
        if part is None and layers[place] is not None:
            known[place] = before
        before = known[place]
    return pl.Series("part", known, pl.String)


def _name_own(names: pl.Series) -> pl.DataFrame:
    """What each different name says by itself; a matrix product is only that."""
    kinds = name_kinds(names)
    named = pl.DataFrame({"name": names, "kind": kinds})
    patterns = pl.coalesce(
        pl.when(pl.col("name").str.contains(f"(?i:{pattern})")).then(pl.lit(part))
        for part, pattern in _list_rows()
    )
    # A collective is one, whatever it is called after.
    by_kind = pl.col("kind").replace(_OF_KINDS)
    part = pl.when(pl.col("kind") == COLLECTIVE).then(pl.lit(COMMUNICATION))
    return named.select("name", part=part.otherwise(pl.coalesce(patterns, by_kind)))


@cache
def _list_rows() -> tuple[tuple[str, str], ...]:
    _, *rows = read_rows(__package__, "kernel_parts.tsv")
    return tuple((row[0], row[1]) for row in rows)


def _place_products(parts: list[str | None], layers: list[int | None]) -> None:
    """Name the matrix products between each attention and the next one."""
    # What prepares the attention before the first layer is called so, too.
    attentions = [n for n, part in enumerate(parts) if part == ATTENTION and layers[n] is not None]
    edges = [-1, *attentions, len(parts)]
    for begin, end in pairwise(edges):
        between = range(begin + 1, end)
        products = [n for n in between if parts[n] == PRODUCT]
        routings = [n for n in between if parts[n] == ROUTING]
        for number, place in enumerate(products):
            if layers[place] is None and begin >= 0:
                parts[place] = VOCABULARY
            elif number == 0 and begin >= 0:
                parts[place] = OUTPUT
            elif place == products[-1] and end < len(parts):
                parts[place] = QKV
            else:
                parts[place] = ROUTING if any(n > place for n in routings) else MLP
