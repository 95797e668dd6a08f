"""Stacks cut where they become too thin to see, so that a picture of them stays small."""

from __future__ import annotations

import polars as pl

from sightline.flames.stacks import Stacks, merge_stacks

_SCALE = 10**15  # a stack's importance: its largest share of any weight, in 10⁻¹⁵


def shorten_stacks(stacks: Stacks, max_nodes: int) -> tuple[Stacks, int]:
    """The stacks with thin ends cut, and how many stacks were cut.

    What is cut below a frame stands there as '[n small frames]', with all weights as they were;
    frames are kept in order of importance, the largest share that they have of any weight, until
    about `max_nodes` are in the trie.
    """
    frames = stacks.rows.get_column("frames")
    if frames.list.len().sum() <= max_nodes:
        return stacks, 0
    shares = [
        (pl.col(w).abs().cast(pl.Float64) / max(stacks.total(w), 1) * _SCALE).cast(pl.Int64)
        for w in stacks.weights
    ]
    rows = stacks.rows.select("frames", share=pl.max_horizontal(shares)).with_row_index("row")
    levels = _levels(rows)
    nodes = pl.concat([level.select("value") for level in levels]).get_column("value")
    if nodes.len() <= max_nodes:
        return stacks, 0
    smallest = nodes.sort(descending=True)[max_nodes]
    keep = _depths(rows, levels, int(smallest))
    return _cut_depth(stacks, keep)


def _levels(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Per depth: parent node, frame, node, value, for all nodes of the trie."""
    todo = rows.with_columns(node=pl.lit(0, pl.UInt32), length=pl.col("frames").list.len())
    levels: list[pl.DataFrame] = []
    used, depth = 1, 0
    while True:
        todo = todo.filter(pl.col("length") > depth).with_columns(
            frame=pl.col("frames").list.get(depth)
        )
        if todo.is_empty():
            return levels
        found = (
            todo.group_by("node", "frame")
            .agg(value=pl.col("share").sum())
            .with_columns(next=pl.int_range(used, used + pl.len(), dtype=pl.UInt32))
        )
        used, depth = used + found.height, depth + 1
        levels.append(found)
        todo = todo.join(found, on=["node", "frame"]).select(
            "row", "frames", "share", "length", node="next"
        )


def _depths(rows: pl.DataFrame, levels: list[pl.DataFrame], smallest: int) -> pl.DataFrame:
    """For each row that is cut: how many frames it keeps, and the node that it is cut at."""
    todo = rows.with_columns(node=pl.lit(0, pl.UInt32), length=pl.col("frames").list.len())
    cuts = []
    for depth, level in enumerate(levels):
        todo = (
            todo.filter(pl.col("length") > depth)
            .with_columns(frame=pl.col("frames").list.get(depth))
            .join(level, on=["node", "frame"])
        )
        small = pl.col("value") < smallest
        cuts.append(todo.filter(small).select("row", "node", "frame", depth=pl.lit(depth)))
        todo = todo.filter(~small).select("row", "frames", "share", "length", node="next")
    return pl.concat(cuts)


def _cut_depth(stacks: Stacks, cuts: pl.DataFrame) -> tuple[Stacks, int]:
    lost = cuts.group_by("node").agg(n=pl.col("frame").n_unique())
    known = stacks.frames.height
    names = (
        lost.select(name=pl.format("[{} small frames]", "n"))
        .unique()
        .sort("name")
        .with_columns(frame_id=pl.int_range(known, known + pl.len(), dtype=pl.UInt32))
    )
    frames = pl.concat([stacks.frames, names.select("frame_id", layer=pl.lit("note"), name="name")])
    stand_in = lost.with_columns(name=pl.format("[{} small frames]", "n")).join(names, on="name")
    keep = cuts.join(stand_in.select("node", last="frame_id"), on="node").select(
        "row", "depth", "last"
    )
    rows = (
        stacks.rows.with_row_index("row")
        .join(keep, on="row", how="left", maintain_order="left")
        .with_columns(
            frames=pl.when(pl.col("depth").is_null())
            .then("frames")
            .otherwise(pl.concat_list(pl.col("frames").list.head(pl.col("depth")), pl.col("last")))
        )
        .select(stacks.rows.columns)
    )
    return merge_stacks(Stacks(frames, rows)), cuts.height
