"""The recorded call stacks of a run as frames of a picture."""

from __future__ import annotations

import polars as pl

from sightline.flames.layers import INDEX, OF_HOST_LAYER


def name_frames(frames: pl.DataFrame) -> pl.DataFrame:
    """frame_id of a run's frames, layer and name: 'function (file:line)', else the binary."""
    layer = pl.col("layer")
    return frames.select(
        "frame_id",
        layer=pl.when(layer.is_in(list(INDEX)))
        .then(layer)
        .otherwise(layer.replace_strict(OF_HOST_LAYER, default="native")),
        name=pl.coalesce(
            pl.format("{} ({}:{})", "function", pl.col("file").str.split("/").list.last(), "line"),
            "function",
            "module",
            pl.lit("[unknown]"),
        ),
    )


def list_stack_paths(stacks: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """Each stack's frames, root first: level by level from the roots.

    `stacks` is the run's table, `ids` gives each frame_id its `id` in the picture.
    """
    nodes = stacks.join(ids, on="frame_id").select("stack_id", "parent_id", "id")
    level = nodes.filter(pl.col("parent_id").is_null()).select(
        "stack_id", path=pl.concat_list("id")
    )
    levels = [level]
    while level.height:
        level = nodes.join(level.rename({"stack_id": "parent_id"}), on="parent_id").select(
            "stack_id", path=pl.concat_list("path", "id")
        )
        levels.append(level)
    return pl.concat(levels)
