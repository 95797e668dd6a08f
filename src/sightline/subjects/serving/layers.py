"""The layers of a model, by the kernels that come back in one step of its engine."""

from __future__ import annotations

import polars as pl

# Fewer equal parts are no stack of layers, and fewer kernels of such a number no proof (ours: the
# smallest served models have 12 layers, and a layer at least five kernels of its own).
LEAST_LAYERS, LEAST_NAMES = 4, 3


def find_layers(names: pl.Series) -> tuple[int, str] | None:
    """How many layers a step's kernels, in order, are of, and the kernel that begins each.

    Most of a layer's kernels run once in it, so that the number of layers is that in which most
    different kernels come; the first of these begins a layer. None where too few agree.
    """
    counts = (
        names.to_frame("name")
        .with_row_index("place")
        .group_by("name")
        .agg(n=pl.len(), first=pl.col("place").min())
    )
    often = counts.filter(pl.col("n") >= LEAST_LAYERS)
    votes = often.group_by("n").agg(names=pl.len()).sort("names", "n", descending=True)
    if votes.is_empty() or votes.item(0, "names") < LEAST_NAMES:
        return None
    layers = int(votes.item(0, "n"))
    begins = often.filter(pl.col("n") == layers).sort("first")
    return layers, str(begins.item(0, "name"))


def number_layers(ops: pl.DataFrame) -> pl.DataFrame:
    """The kernels of one step, in order of time, with `layer` from 0 and the step's `layers`.

    What lies before the first layer and behind the last one has no layer: embedding, the final
    norm, the product with the vocabulary, sampling. The last layer is as long as the others are.
    """
    found = find_layers(ops.get_column("name").cast(pl.String))
    if found is None:
        nothing = pl.lit(None, pl.Int64)
        return ops.with_columns(layer=nothing, layers=nothing)
    layers, begin = found
    is_begin = ops.get_column("name").cast(pl.String) == begin
    places = is_begin.arg_true()
    length = int(places.diff().median() or 1)  # type: ignore[arg-type]
    layer = is_begin.cast(pl.Int64).cum_sum() - 1
    behind = pl.int_range(pl.len(), dtype=pl.Int64) >= int(places[-1]) + length
    return ops.with_columns(
        layer=pl.when(pl.lit(layer >= 0) & ~behind).then(pl.lit(layer)),
        layers=pl.lit(layers, pl.Int64),
    )
