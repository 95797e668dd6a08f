"""Stacks merged into a tree: a node table with a parent, a frame and values, parents first."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.flames.layers import INDEX
from sightline.flames.stacks import Stacks

REMAINDER_LAYER = "note"


@dataclass(frozen=True)
class Tree:
    """Nodes in an order in which a parent comes before its children; node 0 is the root.

    `nodes`: node, parent (null for the root), frame_id (null for the root), depth, `self_value`
    and `value`, which holds the node and all below it.
    """

    frames: pl.DataFrame
    nodes: pl.DataFrame

    @property
    def total(self) -> int:
        """The root's value."""
        return int(self.nodes.item(0, "value"))


def build_tree(stacks: Stacks, weight: str) -> Tree:
    """The tree of one weight. Stacks of no weight leave no nodes.

    Level by level, all stacks at once: as many rounds as the deepest stack has frames.
    """
    rows = (
        stacks.rows.select("frames", value=pl.col(weight))
        .filter(pl.col("value") != 0)
        .with_columns(node=pl.lit(0, pl.UInt32), length=pl.col("frames").list.len())
    )
    whole = int(rows.get_column("value").sum())
    bare = int(rows.filter(pl.col("length") == 0).get_column("value").sum())
    levels = [pl.DataFrame([(0, None, None, 0, whole, bare)], schema=_SCHEMA, orient="row")]
    used = 1
    depth = 0
    while True:
        rows = rows.filter(pl.col("length") > depth).with_columns(
            frame=pl.col("frames").list.get(depth)
        )
        if rows.is_empty():
            break
        ends = pl.col("length") == depth + 1
        found = (
            rows.group_by(parent="node", frame_id="frame")
            .agg(value=pl.col("value").sum(), self_value=pl.col("value").filter(ends).sum())
            .sort("parent", "frame_id")
            .with_columns(node=pl.int_range(used, used + pl.len(), dtype=pl.UInt32))
        )
        used += found.height
        depth += 1
        levels.append(found.with_columns(depth=pl.lit(depth)).select(_add_types()))
        rows = rows.join(
            found.select(pl.col("parent").alias("node"), frame="frame_id", next="node"),
            on=["node", "frame"],
        ).select("frames", "value", "length", node="next")
    return Tree(stacks.frames, pl.concat(levels))


_SCHEMA = {
    "node": pl.UInt32,
    "parent": pl.UInt32,
    "frame_id": pl.UInt32,
    "depth": pl.Int32,
    "value": pl.Int64,
    "self_value": pl.Int64,
}


def _add_types() -> list[pl.Expr]:
    return [pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items()]


def prune_tree(whole: Tree, smallest: int) -> Tree:
    """The tree without nodes below `smallest`, each parent's lost ones together in one node.

    That node is called '[n small frames]', so the values of all others stay what they were and
    nothing disappears without a word. One small child alone is kept as it is.
    """
    nodes = whole.nodes
    # A small node has only small nodes below it, so cutting keeps whole subtrees together.
    small = nodes.filter((pl.col("value").abs() < smallest) & (pl.col("depth") > 0))
    tops = small.join(small.select(parent="node"), on="parent", how="anti")
    lost = (
        tops.group_by("parent")
        .agg(pl.col("value").sum(), n=pl.len(), depth=pl.col("depth").first())
        .filter((pl.col("n") > 1) & (pl.col("value") != 0))
    )
    if lost.is_empty():
        return whole
    gone = _below(nodes, tops.join(lost, on="parent", how="semi").get_column("node"))
    kept = nodes.join(gone.to_frame("node"), on="node", how="anti")
    known = whole.frames.height
    names = lost.select(name=pl.format("[{} small frames]", "n")).unique().sort("name")
    extra = names.with_columns(
        frame_id=pl.int_range(known, known + pl.len(), dtype=pl.UInt32),
        layer=pl.lit(REMAINDER_LAYER),
    ).select(whole.frames.columns)
    stand_ins = lost.with_columns(name=pl.format("[{} small frames]", "n")).join(extra, on="name")
    first_new = int(nodes.get_column("node").max() or 0) + 1  # type: ignore[arg-type]
    stand_ins = stand_ins.sort("parent").with_columns(
        node=pl.int_range(first_new, first_new + pl.len(), dtype=pl.UInt32),
        self_value=pl.col("value"),
    )
    together = pl.concat([kept, stand_ins.select(nodes.columns)]).sort("depth", "node")
    return Tree(pl.concat([whole.frames, extra]), _renumber(together))


def _below(nodes: pl.DataFrame, tops: pl.Series) -> pl.Series:
    """These nodes and all below them."""
    level = tops
    found = [level]
    while level.len():
        level = nodes.filter(pl.col("parent").is_in(level.implode())).get_column("node")
        found.append(level)
    return pl.concat(found)


def _renumber(nodes: pl.DataFrame) -> pl.DataFrame:
    numbers = nodes.select("node").with_row_index("new")
    return (
        nodes.join(numbers, on="node", maintain_order="left")
        .join(
            numbers.select(parent="node", new_parent="new"),
            on="parent",
            how="left",
            maintain_order="left",
        )
        .select(
            pl.col("new").cast(pl.UInt32).alias("node"),
            pl.col("new_parent").cast(pl.UInt32).alias("parent"),
            *list(_SCHEMA)[2:],
        )
    )


def number_layers(frames: pl.DataFrame) -> pl.Series:
    """Each frame's layer as its place in LAYERS."""
    return frames.get_column("layer").replace_strict(INDEX, return_dtype=pl.UInt8)
