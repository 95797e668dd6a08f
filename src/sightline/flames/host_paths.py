"""The path of every host range, merged by name: a trie of frames over the nesting of ranges."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.flames.call_stacks import named_frames, stack_paths
from sightline.flames.layers import BACKWARD, OF_HOST_LAYER
from sightline.model.run import Run


@dataclass(frozen=True)
class HostPaths:
    """`frames`: frame_id, layer, name. `nodes`: node, path (list of frame ids, root first).

    `of`: host_op_id, node. A path starts with the run and the thread.
    """

    frames: pl.DataFrame
    nodes: pl.DataFrame
    of: pl.DataFrame


def host_paths(run: Run, wanted: pl.Series) -> HostPaths:
    """Paths of these ranges. Backward work stands below the forward operator that it is for."""
    host = run.table("host_ops").select(
        "host_op_id", "rank", "pid", "tid", "layer", "name", "parent_id", "forward_id", "stack_id"
    )
    host = _with_ancestors(host, wanted)
    host = host.with_columns(
        # PyTorch records modules among the Python functions.
        frame_layer=pl.when(pl.col("name").str.starts_with("nn.Module: "))
        .then(pl.lit("op"))
        .otherwise(pl.col("layer").replace_strict(OF_HOST_LAYER, default="native")),
        # The outermost backward operator goes below its forward operator.
        above=pl.coalesce("forward_id", "parent_id"),
        is_backward=pl.col("forward_id").is_not_null(),
    )
    frames, roots = _frames(run, host)
    named = frames.select(frame_layer="layer", name="name", frame="frame_id")
    backward = frames.filter(name=BACKWARD).item(0, "frame_id")
    host = host.join(named, on=["frame_layer", "name"], maintain_order="left").select(
        "host_op_id", "above", "is_backward", "frame", "rank", "pid", "tid", "stack_id"
    )
    nodes, of = _nodes(host, roots, backward)
    called = host.get_column("stack_id").null_count() < host.height
    if called:
        nodes, of = _with_call_stacks(run, nodes, of, host, frames)
    return HostPaths(frames, nodes, of)


def _nodes(
    host: pl.DataFrame, roots: pl.DataFrame, backward: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(node, path) and (host_op_id, node): level by level from the threads.

    A node is a frame below a node, so lists are made once for each distinct path, not for each
    range: a training loop has a thousand times as many ranges as paths.
    """
    above = (
        roots.select(path="root").unique(maintain_order=True)
        .with_columns(node=pl.int_range(pl.len(), dtype=pl.UInt32))
    )  # fmt: skip
    starts = roots.join(above.rename({"path": "root", "node": "up"}), on="root").drop("root")
    level = (
        host.filter(pl.col("above").is_null())
        .join(starts, on=["rank", "pid", "tid"], nulls_equal=True)
        .select("host_op_id", "up", "is_backward", "frame")
    )
    todo = host.filter(pl.col("above").is_not_null()).select(
        "host_op_id", "above", "is_backward", "frame"
    )
    key = ["up", "is_backward", "frame"]
    used = above.height
    paths = [above.clear()]
    placed = [pl.DataFrame(schema={"host_op_id": pl.Int64, "node": pl.UInt32})]
    while level.height:
        known = level.select(key).unique(maintain_order=True).with_columns(
            node=pl.int_range(used, used + pl.len(), dtype=pl.UInt32)
        )  # fmt: skip
        used += known.height
        above = known.join(above.rename({"node": "up"}), on="up", maintain_order="left").select(
            path=pl.when("is_backward")
            .then(pl.concat_list("path", pl.lit(backward, pl.UInt32), "frame"))
            .otherwise(pl.concat_list("path", "frame")),
            node="node",
        )
        paths.append(above)
        here = level.join(known, on=key).select("host_op_id", "node")
        placed.append(here)
        if todo.is_empty():
            break
        level = todo.join(here.rename({"host_op_id": "above", "node": "up"}), on="above").select(
            "host_op_id", *key
        )
        todo = todo.join(level, on="host_op_id", how="anti")
    return pl.concat(paths).select("node", "path"), pl.concat(placed)


def _with_call_stacks(
    run: Run, nodes: pl.DataFrame, of: pl.DataFrame, host: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same with the frames of recorded call stacks before the calls that have one."""
    calls = host.filter(pl.col("stack_id").is_not_null()).select("host_op_id", "stack_id")
    ids = named_frames(run).join(
        frames.select("layer", "name", id="frame_id"), on=["layer", "name"]
    )
    stacks = stack_paths(run.table("stacks"), ids.select("frame_id", "id"))
    of = of.join(calls, on="host_op_id", how="left", maintain_order="left")
    pairs = (
        of.select("node", "stack_id").unique(maintain_order=True)
        .join(nodes, on="node", maintain_order="left")
        .join(stacks.rename({"path": "stack"}), on="stack_id", how="left", maintain_order="left")
        .with_columns(
            path=pl.when(pl.col("stack").is_null())
            .then("path")
            .otherwise(
                pl.concat_list(
                    pl.col("path").list.head(pl.col("path").list.len() - 1),
                    "stack",
                    pl.col("path").list.tail(1),
                )
            )
        )
    )  # fmt: skip
    final = pairs.select("path").unique(maintain_order=True).with_row_index("new")
    pairs = pairs.join(final, on="path").select("node", "stack_id", "new")
    placed = of.join(pairs, on=["node", "stack_id"], nulls_equal=True)
    return final.rename({"new": "node"}), placed.select("host_op_id", node="new")


def _with_ancestors(host: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
    """The wanted ranges, all around them, and the forward operators that they are for.

    Only the outermost backward operator of a chain keeps its forward_id: the ones inside it
    belong to the same.
    """
    outermost = host.join(
        host.filter(pl.col("forward_id").is_not_null()).select(
            parent_id="host_op_id", around_is_backward=pl.lit(value=True)
        ),
        on="parent_id",
        how="left",
        maintain_order="left",
    ).with_columns(
        forward_id=pl.when(pl.col("around_is_backward").is_null()).then("forward_id")
    ).drop("around_is_backward")  # fmt: skip
    found = [wanted.drop_nulls().unique().alias("host_op_id").to_frame()]
    level = found[0]
    while level.height:
        above = outermost.join(level, on="host_op_id", how="semi")
        level = (
            pl.concat([above.get_column("parent_id"), above.get_column("forward_id")])
            .drop_nulls()
            .unique()
            .alias("host_op_id")
            .to_frame()
            .join(pl.concat(found), on="host_op_id", how="anti")
        )
        found.append(level)
    return outermost.join(pl.concat(found), on="host_op_id", how="semi", maintain_order="left")


def _frames(run: Run, host: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All frames of these ranges with the run's and the threads', and each thread's root path."""
    threads = (
        host.select("rank", "pid", "tid")
        .unique()
        .join(
            run.table("threads").select("rank", "pid", "tid", "thread_name"),
            on=["rank", "pid", "tid"],
            how="left",
            nulls_equal=True,
        )
        .unique(["rank", "pid", "tid"])
        .with_columns(
            run_name=pl.format("rank {}", "rank"),
            thread=pl.coalesce(
                pl.when(pl.col("thread_name").str.starts_with("thread ")).then("thread_name"),
                pl.format("thread {} {}", "tid", "thread_name"),
                pl.format("thread {}", "tid"),
                pl.lit("thread of unknown number"),
            ),
        )
    )
    note = pl.DataFrame({"layer": ["note"], "name": [BACKWARD]})
    called = host.get_column("stack_id").null_count() < host.height
    frames = (
        pl.concat(
            [
                threads.select(layer=pl.lit("run"), name="run_name"),
                threads.select(layer=pl.lit("thread"), name="thread"),
                host.select(layer="frame_layer", name="name"),
                note,
                *([named_frames(run).select("layer", "name")] if called else []),
            ]
        )
        .unique()
        .sort("layer", "name")
        .with_row_index("frame_id")
        .with_columns(pl.col("frame_id").cast(pl.UInt32))
    )
    of_run = frames.filter(layer="run").select(run_name="name", a="frame_id")
    of_thread = frames.filter(layer="thread").select(thread="name", b="frame_id")
    roots = (
        threads.join(of_run, on="run_name")
        .join(of_thread, on="thread")
        .select("rank", "pid", "tid", root=pl.concat_list("a", "b"))
    )
    return frames, roots
