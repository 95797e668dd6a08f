"""Two flame graphs against each other."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.flames.stacks import Stacks, unite_stacks
from sightline.flames.tree import Tree, build_tree


@dataclass(frozen=True)
class Diff:
    """One tree over both; `nodes` has before, after and change, in the unit of the weight.

    `scale` is what the first one's values were multiplied by to compare equal work. `status` of a
    node is 'new', 'gone', 'grown', 'shrunk' or 'same'; 'same' too where the change lies within
    the noise of repeated steps.
    """

    frames: pl.DataFrame
    nodes: pl.DataFrame
    scale: float


def diff_stacks(
    before: Stacks, after: Stacks, weight: str, *, scale: float = 1.0, noise_ratio: float = 0.0
) -> Diff:
    """The difference of one weight.

    `scale` normalizes: steps after over steps before, or total over total. `noise_ratio` is the
    share of a node's larger value that a change must exceed to count.
    """
    both = unite_stacks(
        [_rename_weights(before, weight, "before"), _rename_weights(after, weight, "after")]
    )
    mirrored = both.rows.with_columns(either=pl.col("before") + pl.col("after"))
    whole = build_tree(Stacks(both.frames, mirrored), "either")
    nodes = _set_values(whole, both, "before")
    nodes = _set_values(Tree(whole.frames, nodes), both, "after")
    nodes = nodes.with_columns(
        before=(pl.col("before") * scale).round().cast(pl.Int64)
    ).with_columns(change=pl.col("after") - pl.col("before"))
    larger = pl.max_horizontal(pl.col("before").abs(), pl.col("after").abs())
    within = pl.col("change").abs() <= larger * noise_ratio
    status = (
        pl.when((pl.col("change") == 0) | within)
        .then(pl.lit("same"))
        .when(pl.col("before") == 0)
        .then(pl.lit("new"))
        .when(pl.col("after") == 0)
        .then(pl.lit("gone"))
        .when(pl.col("change") > 0)
        .then(pl.lit("grown"))
        .otherwise(pl.lit("shrunk"))
    )
    return Diff(whole.frames, nodes.with_columns(status=status), scale)


def _rename_weights(stacks: Stacks, weight: str, name: str) -> Stacks:
    rows = stacks.rows.select("frames", "match", pl.col(weight).alias(name))
    return Stacks(stacks.frames, rows)


def _set_values(whole: Tree, both: Stacks, name: str) -> pl.DataFrame:
    """The whole tree's nodes with the values that one of the two gives them."""
    part = build_tree(both, name).nodes.select(
        "node", "parent", "frame_id", pl.col("value").alias(name)
    )
    # The two trees number their nodes on their own: match them level by level by path.
    matched = [
        pl.DataFrame({"node": [0], "own": [0]}, schema={"node": pl.UInt32, "own": pl.UInt32})
    ]
    while matched[-1].height:
        pairs = matched[-1]
        below = whole.nodes.select("node", "parent", "frame_id").join(
            pairs.rename({"node": "parent", "own": "own_parent"}), on="parent"
        )
        matched.append(
            below.join(
                part.select(own="node", own_parent="parent", frame_id="frame_id"),
                on=["own_parent", "frame_id"],
            ).select("node", "own")
        )
    pairs = pl.concat(matched)
    return (
        whole.nodes.join(pairs, on="node", how="left", maintain_order="left")
        .join(part.select(own="node", **{name: name}), on="own", how="left", maintain_order="left")
        .with_columns(pl.col(name).fill_null(0))
        .drop("own")
    )
