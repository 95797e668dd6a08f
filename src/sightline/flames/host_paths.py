"""The path of every host range, merged by name: a trie of frames over the nesting of ranges."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.algebra.lookup import find_rows, keep_rows, number_groups
from sightline.flames.call_stacks import list_stack_paths, name_frames
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

    def node(self, host_op_ids: pl.Series) -> pl.Series:
        """The node of each of these ranges, null where it has none."""
        rows = find_rows(self.of.get_column("host_op_id"), host_op_ids)
        return self.of.get_column("node").gather(rows)


def make_host_paths(run: Run, wanted: pl.Series) -> HostPaths:
    """Paths of these ranges. Backward work stands below the forward operator that it is for."""
    host = run.table("host_ops")
    above = _above(host)
    needed = _needed(above, find_rows(host.get_column("host_op_id"), wanted))
    host = keep_rows(
        host.select("host_op_id", "rank", "pid", "tid", "layer", "name", "stack_id"), needed
    )
    above = keep_rows(above.with_row_index("row"), needed)
    kind, kinds = number_groups(host, ["layer", "name"])
    thread, threads = number_groups(host, ["rank", "pid", "tid"])
    kinds = kinds.with_columns(
        # PyTorch records modules among the Python functions.
        frame_layer=pl.when(pl.col("name").str.starts_with("nn.Module: "))
        .then(pl.lit("op"))
        .otherwise(pl.col("layer").replace_strict(OF_HOST_LAYER, default="native")),
    )
    called = host.get_column("stack_id").null_count() < host.height
    frames, roots = _frames(run, kinds, threads, called=called)
    ids = frames.rename({"layer": "frame_layer", "frame_id": "frame"})
    frame = kinds.join(ids, on=["frame_layer", "name"], maintain_order="left").get_column("frame")
    nodes, placed = _nodes(
        above.select(
            "row",
            "above",
            "is_backward",
            frame=frame.gather(kind),
            root=pl.when("is_root").then(roots.get_column("root").gather(thread)),
        ),
        needed.len(),
        roots.select("root", path=pl.concat_list("a", "b")).unique("root"),
        frames,
    )
    of = host.select("host_op_id", node=placed.gather(above.get_column("row"))).drop_nulls()
    if called:
        nodes, of = _with_call_stacks(run, nodes, of, host, frames)
    return HostPaths(frames, nodes, of)


def _above(host: pl.DataFrame) -> pl.DataFrame:
    """Of each range, as places in the table: `parent`, `forward`, and `above` in the picture.

    Only the outermost backward operator of a chain goes below its forward operator: the ones
    inside it belong to the same. What is `above` may be missing, which makes no root.
    """
    ids = host.get_column("host_op_id")
    parent, forward = (find_rows(ids, host.get_column(c)) for c in ("parent_id", "forward_id"))
    is_backward = host.get_column("forward_id").is_not_null()
    if is_backward.any():
        is_backward &= ~is_backward.gather(parent).fill_null(value=False)
    return pl.select(
        parent=parent,
        forward=pl.when(is_backward).then(forward),
        above=pl.when(is_backward).then(forward).otherwise(parent),
        is_backward=is_backward,
        is_root=~is_backward & host.get_column("parent_id").is_null(),
    )


def _needed(above: pl.DataFrame, wanted: pl.Series) -> pl.Series:
    """Which ranges are wanted, or around such, or the forward operators of these."""
    ways = [c for c in (above.get_column("parent"), above.get_column("forward")) if c.count()]
    found = pl.repeat(value=False, n=above.height, eager=True)
    level = wanted.drop_nulls().unique()
    while level.len():
        found = found.scatter(level, values=True)
        level = pl.concat([level.clear(), *(way.gather(level) for way in ways)])
        level = level.drop_nulls().unique()
        level = level.filter(~found.gather(level))
    return found


def _nodes(
    rows: pl.DataFrame, height: int, roots: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.Series]:
    """(node, path), and the node of each of the table's `height` rows: level by level.

    `rows` has row, above, frame, is_backward, and the `root` of outermost ranges; `roots` their
    paths. A node is a frame below a node, so lists are made once for each distinct path, not for
    each range: a training loop has a thousand times as many ranges as paths.
    """
    backward = frames.filter(name=BACKWARD).item(0, "frame_id")
    node = pl.repeat(None, height, dtype=pl.UInt32, eager=True)
    above = roots.select("path", node=pl.col("root").cast(pl.UInt32))
    paths = [above.clear()]
    used = above.height
    level = rows.filter(pl.col("root").is_not_null()).with_columns(up="root")
    todo = rows.filter(pl.col("root").is_null() & pl.col("above").is_not_null())
    while level.height:
        # One number for a frame below a node: looked up much faster than three.
        key = level.select(
            (pl.col("up").cast(pl.Int64) * 2 + pl.col("is_backward")) * frames.height
            + pl.col("frame")
        ).to_series()
        keys = key.unique().sort()
        node = node.scatter(level.get_column("row"), keys.search_sorted(key) + used)
        up, frame = pl.col("key") // frames.height, pl.col("key") % frames.height
        above = (
            keys.alias("key")
            .to_frame()
            .select(
                up=(up // 2).cast(pl.UInt32),
                is_backward=up % 2 == 1,
                frame=frame.cast(pl.UInt32),
                node=pl.int_range(used, used + pl.len(), dtype=pl.UInt32),
            )
            .join(above.rename({"node": "up"}), on="up", maintain_order="left")
            .select(
                path=pl.when("is_backward")
                .then(pl.concat_list("path", pl.lit(backward, pl.UInt32), "frame"))
                .otherwise(pl.concat_list("path", "frame")),
                node="node",
            )
        )
        paths.append(above)
        used += keys.len()
        todo = todo.with_columns(up=node.gather(todo.get_column("above")))
        level = todo.filter(pl.col("up").is_not_null())
        todo = todo.filter(pl.col("up").is_null())
    return pl.concat(paths).select("node", "path"), node


def _with_call_stacks(
    run: Run, nodes: pl.DataFrame, of: pl.DataFrame, host: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same with the frames of recorded call stacks before the calls that have one."""
    calls = host.filter(pl.col("stack_id").is_not_null()).select("host_op_id", "stack_id")
    ids = name_frames(run.table("frames")).join(
        frames.select("layer", "name", id="frame_id"), on=["layer", "name"]
    )
    stacks = list_stack_paths(run.table("stacks"), ids.select("frame_id", "id"))
    of = of.join(calls, on="host_op_id", how="left", maintain_order="left")
    pairs = (
        of.select("node", "stack_id")
        .unique(maintain_order=True)
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
    )
    final = pairs.select("path").unique(maintain_order=True).with_row_index("new")
    pairs = pairs.join(final, on="path").select("node", "stack_id", "new")
    placed = of.join(pairs, on=["node", "stack_id"], nulls_equal=True)
    return final.rename({"new": "node"}), placed.select("host_op_id", node="new")


def _frames(
    run: Run, kinds: pl.DataFrame, threads: pl.DataFrame, *, called: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All frames of these kinds of range with the run's and the threads'; each thread's root.

    `kinds` has frame_layer and name. The second answer has a row for each of the threads, in their
    order: `a` and `b`, the frames of its path, and `root`, the number of that path.
    """
    threads = threads.join(
        run.table("threads")
        .select("rank", "pid", "tid", "thread_name")
        .unique(["rank", "pid", "tid"], keep="first", maintain_order=True),
        on=["rank", "pid", "tid"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        run_name=pl.format("rank {}", "rank"),
        thread=pl.coalesce(
            pl.when(pl.col("thread_name").str.starts_with("thread ")).then("thread_name"),
            pl.format("thread {} {}", "tid", "thread_name"),
            pl.format("thread {}", "tid"),
            pl.lit("thread of unknown number"),
        ),
    )
    note = pl.DataFrame({"layer": ["note"], "name": [BACKWARD]})
    frames = (
        pl.concat(
            [
                threads.select(layer=pl.lit("run"), name="run_name"),
                threads.select(layer=pl.lit("thread"), name="thread"),
                kinds.select(layer="frame_layer", name="name"),
                note,
                *([name_frames(run.table("frames")).select("layer", "name")] if called else []),
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
        threads.join(of_run, on="run_name", maintain_order="left")
        .join(of_thread, on="thread", maintain_order="left")
        .select("a", "b")
    )
    root, _ = number_groups(roots, ["a", "b"])
    return frames, roots.with_columns(root=root)
